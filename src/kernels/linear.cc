// Linear layers: output tiles by row blocks, shared out over the pool.
#include <algorithm>

#include "base/check.h"
#include "kernels/internal/parallel.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace thimble::kernels {
namespace {

using internal::divide_up;

constexpr uint64_t kRunStep = 32;  // outputs: the rows that share FP8 scales

// The tasks of one product: blocks of x rows, each against runs of outputs.
struct Cut {
  uint64_t row_blocks;
  uint64_t output_runs;
  uint32_t outputs;  // in a run, a multiple of kRunStep

  uint64_t tasks() const { return row_blocks * output_runs; }
};

Cut cut_product(const LinearJob& job) {
  const uint64_t rows = std::min<uint64_t>(job.x.rows, kLinearRows);
  const uint64_t per_output = std::max<uint64_t>(1, rows * job.weight.cols);
  const uint64_t wanted = divide_up(internal::kTaskWork, per_output * kRunStep);
  const uint64_t all = divide_up(job.weight.rows, kRunStep);
  const uint64_t tiles = std::max<uint64_t>(1, std::min(wanted, all));
  return {divide_up(job.x.rows, kLinearRows), divide_up(all, tiles),
          static_cast<uint32_t>(tiles * kRunStep)};
}

void check_job(const LinearJob& job) {
  CHECK_EQ(job.x.cols, uint64_t{job.weight.cols});
  CHECK_EQ(job.y.cols, uint64_t{job.weight.rows});
  CHECK_EQ(job.x.rows, job.y.rows);
  const bool scaled = job.weight.format == WeightFormat::kFp8Block32 ||
                      job.weight.format == WeightFormat::kFp4Group32;
  if (scaled) CHECK_EQ(job.weight.cols % 32, 0u);
  CHECK_GE(job.weight.cols, 1u);
}

void run_task(const Table& table, const LinearJob& job, const Cut& cut, uint64_t task,
              float* scratch) {
  const uint64_t first = task / cut.output_runs * kLinearRows;
  const uint64_t rows = std::min<uint64_t>(kLinearRows, job.x.rows - first);
  const uint32_t begin = static_cast<uint32_t>(task % cut.output_runs) * cut.outputs;
  const uint32_t end = std::min(job.weight.rows, begin + cut.outputs);
  table.linear(job.weight, begin, end, job.x.slice(first, rows), job.y.slice(first, rows), scratch);
}

}  // namespace

void linear_batch(std::span<const LinearJob> jobs, Context context) {
  const Table& table = kernels();
  const Workspace::Mark mark(context.workspace);
  internal::TaskMap map(context.workspace, jobs.size());
  uint64_t work = 0;
  for (const LinearJob& job : jobs) {
    check_job(job);
    map.add(cut_product(job).tasks());
    work += job.x.rows * job.weight.rows * job.weight.cols;
  }
  const std::span<float> scratch =
      context.workspace.take<float>(context.pool.size() * kLinearScratch);
  internal::run_tasks(context, map.count(), work, [&](uint64_t index, uint32_t worker) {
    const auto place = map.find(index);
    const LinearJob& job = jobs[place.item];
    run_task(table, job, cut_product(job), place.task, &scratch[worker * kLinearScratch]);
  });
}

void linear(const WeightView& weight, Rows<const float> x, Rows<float> y, Context context) {
  const LinearJob job{weight, x, y};
  linear_batch({&job, 1}, context);
}

void decode_weight_row(const WeightView& weight, uint32_t row, std::span<float> out) {
  CHECK_LT(row, weight.rows);
  CHECK_EQ(out.size(), uint64_t{weight.cols});
  kernels().decode_weight(weight, row, 0, weight.cols, out.data());
}

}  // namespace thimble::kernels
