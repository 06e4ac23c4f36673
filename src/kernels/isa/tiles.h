// How much of an operation lies in registers at once. Results do not depend on it, but every size
// has code of its own: so tests compile AVX2 once more, under another name and with the tiles of
// AVX-512 (wide_tiles_table.cc).
#pragma once

#include <cstdint>

#if defined(THIMBLE_WIDE_TILES)
#define THIMBLE_AVX2 avx2_wide_tiles
#else
#define THIMBLE_AVX2 avx2
#endif

namespace thimble::kernels {

// Of sixteen registers, each half of a 16-lane vector.
struct Tiles16 {
  static constexpr uint32_t kTileRows = 3;     // rows of x,
  static constexpr uint32_t kTileOutputs = 2;  // by outputs
  static constexpr uint32_t kScoreHeads = 3;   // heads,
  static constexpr uint32_t kScoreRows = 2;    // by rows of attention
  static constexpr uint32_t kIndexHeads = 4;   // heads of the indexer
  static constexpr uint32_t kPackedRows = 6;   // rows of x against packed FP8,
  static constexpr uint32_t kIntRows = 4;      // and FP4
};

// Of thirty-two registers, each a whole vector.
struct Tiles32 {
  static constexpr uint32_t kTileRows = 4;
  static constexpr uint32_t kTileOutputs = 4;
  static constexpr uint32_t kScoreHeads = 8;
  static constexpr uint32_t kScoreRows = 3;
  static constexpr uint32_t kIndexHeads = 8;
  static constexpr uint32_t kPackedRows = 12;
  static constexpr uint32_t kIntRows = 8;
};

#if defined(THIMBLE_WIDE_TILES)
using TilesAvx2 = Tiles32;
#else
using TilesAvx2 = Tiles16;
#endif

// Of the definition: small, so that most sizes leave a rest.
struct Tiles2 {
  static constexpr uint32_t kTileRows = 2;
  static constexpr uint32_t kTileOutputs = 2;
  static constexpr uint32_t kScoreHeads = 2;
  static constexpr uint32_t kScoreRows = 2;
  static constexpr uint32_t kIndexHeads = 4;
  static constexpr uint32_t kPackedRows = 2;
  static constexpr uint32_t kIntRows = 4;
};

}  // namespace thimble::kernels
