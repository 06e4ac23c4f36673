// Linear layers: output tiles by row blocks, shared out over the pool.
#include <algorithm>

#include "base/check.h"
#include "kernels/internal/linear_jobs.h"
#include "kernels/internal/parallel.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace thimble::kernels {
namespace {

using internal::divide_up;

constexpr uint64_t kRunStep = 32;      // outputs: the rows that share FP8 scales
constexpr uint64_t kSmallRunStep = 4;  // of weights without scales, where there would be few tasks
constexpr uint64_t kFewTasks = 4;
constexpr uint64_t kFastRunStep = 128;  // blocks of 16 that are run side by side

// The tasks of one product: blocks of x rows, each against runs of outputs.
struct Cut {
  uint64_t rows = 0;  // of x in a task, at most
  uint64_t row_blocks = 0;
  uint64_t output_runs = 0;
  uint32_t outputs = 0;  // in a run, a multiple of the step

  uint64_t tasks() const { return row_blocks * output_runs; }
};

// Whether runs of kRunStep outputs would leave workers idle.
bool few_runs(const LinearJob& job) {
  return divide_up(job.x.rows, kLinearRows) * divide_up(job.weight.rows, kRunStep) < kFewTasks;
}

Cut cut_product(const LinearJob& job) {
  const bool fast = internal::is_fast(job.weight);
  const bool few = !fast && job.weight.scales == nullptr && few_runs(job);
  const uint64_t step = fast ? kFastRunStep : few ? kSmallRunStep : kRunStep;
  Cut cut;
  cut.rows = fast ? internal::kFastRows : kLinearRows;
  const uint64_t rows = std::min(job.x.rows, cut.rows);
  const uint64_t per_output = std::max<uint64_t>(1, rows * job.weight.cols);
  const uint64_t work = few ? internal::kInlineWork : internal::kTaskWork;
  const uint64_t wanted = divide_up(work, per_output * step);
  const uint64_t all = divide_up(job.weight.rows, step);
  const uint64_t tiles = std::max<uint64_t>(1, std::min(wanted, all));
  cut.row_blocks = divide_up(job.x.rows, cut.rows);
  cut.output_runs = divide_up(all, tiles);
  cut.outputs = static_cast<uint32_t>(tiles * step);
  return cut;
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

void run_task(const Table& table, const LinearJob& job, const internal::FastInputs& inputs,
              const Cut& cut, uint64_t task, std::byte* scratch) {
  const uint64_t first = task / cut.output_runs * cut.rows;
  const uint64_t rows = std::min(cut.rows, job.x.rows - first);
  const uint32_t begin = static_cast<uint32_t>(task % cut.output_runs) * cut.outputs;
  const uint32_t end = std::min(job.weight.rows, begin + cut.outputs);
  const Rows<float> y = job.y.slice(first, rows);
  if (internal::is_fast(job.weight)) {
    internal::run_fast(table, job.weight, begin, end, inputs.slice(first, rows), y, scratch);
  } else {
    table.linear(job.weight, begin, end, job.x.slice(first, rows), y,
                 reinterpret_cast<float*>(scratch));
  }
}

uint64_t scratch_bytes(const LinearJob& job) {
  return internal::is_fast(job.weight) ? internal::fast_scratch_bytes(job.weight)
                                       : kLinearScratch * sizeof(float);
}

}  // namespace

void linear_batch(std::span<const LinearJob> jobs, Context context) {
  const Table& table = kernels();
  const Workspace::Mark mark(context.workspace);
  internal::TaskMap map(context.workspace, jobs.size());
  uint64_t work = 0;
  uint64_t scratch_each = 64;
  for (const LinearJob& job : jobs) {
    check_job(job);
    map.add(cut_product(job).tasks());
    work += job.x.rows * job.weight.rows * job.weight.cols;
    scratch_each = std::max(scratch_each, scratch_bytes(job));
  }
  scratch_each = divide_up(scratch_each, 64) * 64;
  const std::span<internal::FastInputs> inputs = internal::prepare_inputs(table, jobs, context);
  const std::span<std::byte> scratch =
      context.workspace.take<std::byte>(context.pool.size() * scratch_each);
  internal::run_tasks(context, map.count(), work, [&](uint64_t index, uint32_t worker) {
    const auto place = map.find(index);
    const LinearJob& job = jobs[place.item];
    run_task(table, job, inputs[place.item], cut_product(job), place.task,
             &scratch[worker * scratch_each]);
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
