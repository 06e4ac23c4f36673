// Scores of one query over tiles of index keys, by the fastest way that both admit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"

namespace thimble::kernels::internal {

// A query as codes; both without where it is not of MXFP4 values, the second where it is not level.
struct QueryCodes {
  Int8Query int8 = {};
  LevelQuery level = {};
};

// In the workspace. REQUIRES: job.keys is MXFP4, shape.dims a multiple of 32.
QueryCodes make_query_codes(const SelectJob& job, const SelectShape& shape, const Table& table,
                            Workspace& workspace);

class TileScorer {
 public:
  static uint64_t scratch_floats(uint32_t dims);

  // All are borrowed. scratch: scratch_floats(), 64-byte aligned.
  TileScorer(const SelectJob& job, const SelectShape& shape, const QueryCodes& codes,
             const Table& table, std::span<float> scratch);

  // ahead: a tile that comes soon, or any. out: the tile's first scores, there after finish().
  void add(const std::byte* tile, const std::byte* ahead, std::span<float> out);
  void finish();

 private:
  void score_groups(const std::byte* tile, float* out);

  const SelectJob& job_;
  const SelectShape& shape_;
  const QueryCodes& codes_;
  const Table& table_;
  float* keys_;       // [dims, 16], or their codes
  LevelScore level_;  // tiles that wait
  std::span<float> outs_[kLevelTiles];
};

}  // namespace thimble::kernels::internal
