// Rows of cached keys and values where they lie: in pages (global KV), tiles (index keys) and rings
// (windows). The cache owns the bytes; kernels read them through these views and nothing else.
//
// Formats and offsets are those of arch/cache_layout.h, passed in as numbers so that kernels know
// no model. Sources: backbone spec section 7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble::kernels {

enum class RowFormat : uint8_t {
  kFloat,      // float32 values
  kWindowFp8,  // dims E4M3 codes, then dims/32 E8M0 scales
  kMainFp4,    // dims/2 bytes of E2M1 codes (even dimension low), then dims/16 E4M3 scales
};

// Row `i` of one owner's main rows lies in page i / rows_per_page.
struct PagedRows {
  std::byte* const* pages = nullptr;
  uint64_t offset_bytes = 0;  // where this owner's rows begin inside a page
  uint32_t rows_per_page = 1;
  uint32_t row_bytes = 0;
  uint32_t dims = 0;
  RowFormat format = RowFormat::kMainFp4;

  std::byte* row(uint64_t i) const {
    return pages[i / rows_per_page] + offset_bytes + (i % rows_per_page) * row_bytes;
  }
};

enum class TileFormat : uint8_t {
  kFloat,  // float32 [dims, 16 entries]
  kMxfp4,  // E2M1 [dims, 16 entries], two codes a byte, even entry low; then E8M0 [dims/32, 16]
};

inline constexpr uint32_t kTileRows = 16;

// Index keys: tiles of 16 entries, dimension-sliced.
struct PagedTiles {
  std::byte* const* pages = nullptr;
  uint64_t offset_bytes = 0;
  uint32_t tiles_per_page = 1;
  uint32_t tile_bytes = 0;  // 16 x index_row_bytes
  uint32_t dims = 0;
  TileFormat format = TileFormat::kMxfp4;

  std::byte* tile(uint64_t t) const {
    return pages[t / tiles_per_page] + offset_bytes + (t % tiles_per_page) * tile_bytes;
  }
};

// The window of one layer: position p lies in slot p % slots.
struct RingRows {
  std::byte* base = nullptr;
  uint32_t slots = 1;
  uint32_t row_bytes = 0;
  uint32_t dims = 0;
  RowFormat format = RowFormat::kWindowFp8;

  std::byte* row(uint64_t position) const { return base + (position % slots) * row_bytes; }
};

// Everything cached of one sequence. Valid until its owner grows, moves or frees it.
struct SequenceRows {
  std::vector<PagedRows> main;    // [owners]
  std::vector<PagedTiles> index;  // [owners]
  std::vector<RingRows> windows;  // [layers]
};

}  // namespace thimble::kernels
