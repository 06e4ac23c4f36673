#include "cache/internal/block_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/paged_rows.h"

namespace thimble::cache {
namespace {

using arch::CacheFormat;
using arch::kTileEntries;
using arch::OwnerLayout;

static_assert(arch::kTileEntries == kernels::kTileRows, "one tile, two names");

// Packed codes take 4 bits, everything else whole bytes: sizes of one tile's parts.
struct TileParts {
  uint32_t code_rows = 0;   // bytes of codes an entry pair has, i.e. dimensions; 0: no codes
  uint32_t value_rows = 0;  // whole values an entry has: scales, or float32 values
  uint32_t value_bytes = 1;
};

TileParts tile_parts(CacheFormat format, const OwnerLayout& owner) {
  if (format == CacheFormat::kFloat) return {0, owner.index_row_bytes / 4, 4};
  return {2 * (owner.index_row_bytes - owner.index_scale_bytes), owner.index_scale_bytes, 1};
}

// Zeroes entries [first, kTileEntries) of a tile.
void erase_in_tile(const TileParts& parts, std::byte* tile, uint32_t first) {
  for (uint32_t row = 0; row < parts.code_rows; ++row, tile += kTileEntries / 2) {
    if (first % 2 == 1) tile[first / 2] &= std::byte{0x0F};
    const uint32_t whole = (first + 1) / 2;
    std::memset(tile + whole, 0, kTileEntries / 2 - whole);
  }
  const uint32_t bytes = parts.value_bytes;
  for (uint32_t row = 0; row < parts.value_rows; ++row, tile += kTileEntries * bytes) {
    std::memset(tile + first * bytes, 0, (kTileEntries - first) * bytes);
  }
}

}  // namespace

void erase_entries(const arch::CacheLayout& layout, std::byte* block, uint64_t tokens) {
  CHECK_LE(tokens, uint64_t{arch::kBlockTokens});
  for (const OwnerLayout& owner : layout.owners) {
    const auto kept = static_cast<uint32_t>(arch::entries_after(tokens, owner.ratio));
    std::memset(block + owner.main_offset_bytes + uint64_t{kept} * owner.main_row_bytes, 0,
                uint64_t{owner.entries_per_block - kept} * owner.main_row_bytes);
    const uint64_t tile_bytes = uint64_t{kTileEntries} * owner.index_row_bytes;
    std::byte* const tiles = block + owner.index_offset_bytes;
    const uint32_t whole_tiles = kept / kTileEntries;
    uint64_t erased_tile = whole_tiles;
    if (kept % kTileEntries != 0) {
      erase_in_tile(tile_parts(layout.format, owner), tiles + whole_tiles * tile_bytes,
                    kept % kTileEntries);
      ++erased_tile;
    }
    const uint64_t tiles_count = owner.entries_per_block / kTileEntries;
    std::memset(tiles + erased_tile * tile_bytes, 0, (tiles_count - erased_tile) * tile_bytes);
  }
}

bool is_erased(const arch::CacheLayout& layout, const std::byte* block, uint64_t tokens) {
  if (tokens == arch::kBlockTokens) return true;
  std::vector<std::byte> erased(block, block + layout.block_bytes);
  erase_entries(layout, erased.data(), tokens);
  return std::equal(erased.begin(), erased.end(), block);
}

void copy_entries(const arch::CacheLayout& layout, const std::byte* from, uint64_t tokens,
                  std::byte* to) {
  std::memcpy(to, from, layout.block_bytes);
  erase_entries(layout, to, tokens);
}

bool is_zero(const std::byte* bytes, uint64_t size) {
  return std::all_of(bytes, bytes + size, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace thimble::cache
