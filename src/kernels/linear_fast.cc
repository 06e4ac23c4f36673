#include <algorithm>

#include "base/check.h"
#include "kernels/internal/linear_jobs.h"
#include "kernels/internal/parallel.h"
#include "kernels/packed.h"

namespace thimble::kernels::internal {
namespace {

bool same_rows(Rows<const float> a, Rows<const float> b) {
  return a.data == b.data && a.rows == b.rows && a.cols == b.cols && a.stride == b.stride;
}

// Of a task that begins with row `begin`: those of all tasks before it lie in front.
Int8Rows task_rows(const Int8Rows& all, uint64_t begin, uint64_t count) {
  const uint64_t groups = begin * all.groups();
  return {all.codes + begin * all.cols, all.half_scales + groups, all.offsets + groups, count,
          all.cols};
}

// Task by task, so that a task's groups have its rows side by side.
Int8Rows quantize(const Table& table, Rows<const float> x, Context context) {
  const auto cols = static_cast<uint32_t>(x.cols);
  const uint64_t groups = cols / kPackInputs;
  int8_t* const codes = context.workspace.take<int8_t>(x.rows * cols).data();
  float* const half_scales = context.workspace.take<float>(x.rows * groups).data();
  int32_t* const offsets = context.workspace.take<int32_t>(x.rows * groups).data();
  for_rows(context, x.rows, x.cols, [&](uint64_t i) {
    const uint64_t first = i / kFastRows * kFastRows;
    const uint64_t at = first * groups + i % kFastRows;
    table.quantize_row(x.row(i), cols, codes + i * cols, half_scales + at, offsets + at,
                       std::min(kFastRows, x.rows - first));
  });
  return {codes, half_scales, offsets, x.rows, cols};
}

// Task by task, so that a task's rows are tiles of their own.
const float* tile(const Table& table, Rows<const float> x, Context context) {
  if (x.rows == 1) return x.data;
  float* const out = context.workspace.take<float>(x.rows * x.cols).data();
  const uint64_t tasks = divide_up(x.rows, kFastRows);
  run_tasks(context, tasks, x.rows * x.cols, [&](uint64_t task, uint32_t) {
    const uint64_t first = task * kFastRows;
    table.tile_rows(x.slice(first, std::min(kFastRows, x.rows - first)), out + first * x.cols);
  });
  return out;
}

FastInputs prepare(const Table& table, const LinearJob& job, Context context) {
  FastInputs inputs;
  if (job.weight.format == WeightFormat::kFp4Group32) {
    inputs.codes = quantize(table, job.x, context);
  } else {
    inputs.tiles = {tile(table, job.x, context), job.x.rows, static_cast<uint32_t>(job.x.cols)};
  }
  return inputs;
}

void run_blocks(const Table& table, WeightFormat format, const std::byte* blocks, uint64_t count,
                uint32_t outputs, const FastInputs& x, Rows<float> y, std::byte* scratch) {
  if (format == WeightFormat::kFp4Group32) {
    table.packed_fp4(blocks, count, outputs, x.codes, y, scratch);
  } else {
    table.packed_fp8(blocks, count, outputs, x.tiles, y, scratch);
  }
}

}  // namespace

bool is_fast(const WeightView& weight) {
  return weight.arithmetic == Arithmetic::kFast && packable(weight);
}

FastInputs FastInputs::slice(uint64_t begin, uint64_t count) const {
  FastInputs out;
  if (codes.codes != nullptr) out.codes = task_rows(codes, begin, count);
  if (tiles.data != nullptr) out.tiles = {tiles.data + begin * tiles.cols, count, tiles.cols};
  return out;
}

std::span<FastInputs> prepare_inputs(const Table& table, std::span<const LinearJob> jobs,
                                     Context context) {
  const std::span<FastInputs> inputs = context.workspace.take<FastInputs>(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    inputs[i] = {};
    if (!is_fast(jobs[i].weight) || jobs[i].x.rows == 0) continue;
    const bool shared = i > 0 && is_fast(jobs[i - 1].weight) &&
                        jobs[i].weight.format == jobs[i - 1].weight.format &&
                        same_rows(jobs[i].x, jobs[i - 1].x);
    inputs[i] = shared ? inputs[i - 1] : prepare(table, jobs[i], context);
  }
  return inputs;
}

uint64_t fast_scratch_bytes(const WeightView& weight) {
  const uint64_t own = packed_scratch_bytes(weight.cols, kFastRows);
  const uint64_t block =
      weight.packed == nullptr ? pack_block_bytes(weight.format, weight.cols) : 0;
  return divide_up(own, 64) * 64 + block;
}

void run_fast(const Table& table, const WeightView& weight, uint32_t begin, uint32_t end,
              const FastInputs& x, Rows<float> y, std::byte* scratch) {
  DCHECK(begin % kPackOutputs == 0);
  const uint64_t block_bytes = pack_block_bytes(weight.format, weight.cols);
  const uint64_t first = begin / kPackOutputs;
  const uint64_t count = pack_blocks(end) - first;
  const Rows<float> out = y.columns(begin, end - begin);
  if (weight.packed != nullptr) {
    return run_blocks(table, weight.format, weight.packed + first * block_bytes, count, end - begin,
                      x, out, scratch);
  }
  std::byte* const block =
      scratch + divide_up(packed_scratch_bytes(weight.cols, kFastRows), 64) * 64;
  for (uint64_t b = 0; b < count; ++b) {
    pack_weight(weight, first + b, first + b + 1, block);
    const auto output = static_cast<uint32_t>(b * kPackOutputs);
    const uint32_t here = std::min(kPackOutputs, end - begin - output);
    run_blocks(table, weight.format, block, 1, here, x, out.columns(output, here), scratch);
  }
}

}  // namespace thimble::kernels::internal
