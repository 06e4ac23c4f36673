// How much of an operation lies in registers at once. Results do not depend on it, but every size
// has code of its own.
#pragma once

#include <cstdint>

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

}  // namespace thimble::kernels
