// The fast half of linear_batch(): activations made ready once for all products that read them (to
// int8, or side by side), and runs of outputs against packed weights.
#pragma once

#include <span>

#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"

namespace thimble::kernels::internal {

inline constexpr uint64_t kFastRows = 128;  // rows of x in one task, at most

// Is the product computed over packed blocks? A property of the matrix, never of the rows.
bool is_fast(const WeightView& weight);

// A job's rows as its weights want them: one of the two, or neither.
struct FastInputs {
  Int8Rows codes = {};
  FloatTiles tiles = {};

  // REQUIRES: `begin` is a multiple of kFastRows, the slice no longer.
  FastInputs slice(uint64_t begin, uint64_t count) const;
};

// In the workspace, [jobs]. Jobs that follow each other with the same x share them.
std::span<FastInputs> prepare_inputs(const Table& table, std::span<const LinearJob> jobs,
                                     Context context);

// Of run_fast(), for one worker.
uint64_t fast_scratch_bytes(const WeightView& weight);

// Outputs [begin, end), begin a multiple of 16: y.row(i)[o]. At most kFastRows rows.
void run_fast(const Table& table, const WeightView& weight, uint32_t begin, uint32_t end,
              const FastInputs& x, Rows<float> y, std::byte* scratch);

}  // namespace thimble::kernels::internal
