#include "kernels/internal/tile_scorer.h"

#include <algorithm>

#include "kernels/internal/fetch.h"
#include "kernels/internal/int8_query.h"

namespace thimble::kernels::internal {
namespace {

// Floats of a levelled tile: scales, start values, codes of a byte each.
uint64_t level_floats(uint32_t dims) { return uint64_t{2} * kTileRows + uint64_t{dims} * 4; }

LevelTile level_tile_at(float* memory) {
  return {.codes = reinterpret_cast<std::byte*>(memory + 2 * kTileRows),
          .start = reinterpret_cast<int32_t*>(memory + kTileRows),
          .scales = memory};
}

}  // namespace

QueryCodes make_query_codes(const SelectJob& job, const SelectShape& shape, const Table& table,
                            Workspace& workspace) {
  QueryCodes codes;
  codes.int8 = make_int8_query(job.q, shape.heads, shape.dims, workspace);
  if (codes.int8.codes != nullptr && table.level_tile != nullptr) {
    codes.level =
        make_level_query(codes.int8, job.head_weights, shape.heads, shape.dims, workspace);
  }
  return codes;
}

uint64_t TileScorer::scratch_floats(uint32_t dims) {
  return uint64_t{dims} * kTileRows + kLevelTiles * level_floats(dims);
}

TileScorer::TileScorer(const SelectJob& job, const SelectShape& shape, const QueryCodes& codes,
                       const Table& table, std::span<float> scratch)
    : job_(job),
      shape_(shape),
      codes_(codes),
      table_(table),
      keys_(scratch.data()),
      level_{.q = codes.level,
             .tiles = {},
             .tile_bytes = job.keys.tile_bytes,
             .heads = shape.heads,
             .dims = shape.dims} {
  float* memory = keys_ + uint64_t{shape.dims} * kTileRows;
  for (LevelTile& tile : level_.tiles) {
    tile = level_tile_at(memory);
    memory += level_floats(shape.dims);
  }
}

void TileScorer::add(const std::byte* tile, const std::byte* ahead, std::span<float> out) {
  if (codes_.level.codes != nullptr &&
      table_.level_tile(tile, shape_.dims, codes_.level, level_.tiles[level_.count])) {
    outs_[level_.count] = out;
    level_.ahead[level_.count] = ahead;
    if (++level_.count == kLevelTiles) finish();
    return;
  }
  fetch_row(ahead, job_.keys.tile_bytes);
  float scores[kTileRows];
  score_groups(tile, scores);
  std::copy_n(scores, out.size(), out.data());
}

void TileScorer::finish() {
  if (level_.count == 0) return;
  float scores[kLevelTiles][kTileRows];
  table_.score_level(level_, scores[0]);
  for (uint32_t t = 0; t < kLevelTiles && t < level_.count; ++t) {
    std::copy_n(scores[t], outs_[t].size(), outs_[t].data());
  }
  level_.count = 0;
}

void TileScorer::score_groups(const std::byte* tile, float* out) {
  if (codes_.int8.codes == nullptr) {
    table_.decode_tile(job_.keys.format, tile, shape_.dims, keys_);
    table_.score_tile({job_.q, job_.head_weights, keys_, shape_.heads, shape_.dims}, out);
    return;
  }
  auto* const expanded = reinterpret_cast<std::byte*>(keys_);
  table_.expand_tile(tile, shape_.dims, expanded);
  const std::byte* const scales = tile + uint64_t{shape_.dims} * (kTileRows / 2);
  table_.score_tile_int8(
      {codes_.int8, job_.head_weights, expanded, scales, shape_.heads, shape_.dims}, out);
}

}  // namespace thimble::kernels::internal
