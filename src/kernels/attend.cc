// Attention: decodes the rows of a query to float32 scratch, then shares out its heads.
//
// Many queries: one task each, decoding included. Few (decoding steps): all workers decode rows,
// then all take heads.
#include <algorithm>

#include "base/check.h"
#include "kernels/internal/fetch.h"
#include "kernels/internal/parallel.h"
#include "kernels/internal/rotate.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace thimble::kernels {
namespace {

using internal::divide_up;

constexpr uint32_t kRowsPerTask = 32;
constexpr uint32_t kRowsAhead = 8;
constexpr uint64_t kTasksPerWorker = 2;

uint32_t selected_count(const AttendJob& job) {
  const auto end = std::find(job.selected.begin(), job.selected.end(), -1);
  return static_cast<uint32_t>(end - job.selected.begin());
}

uint32_t window_count(const AttendJob& job) {
  CHECK_LE(job.window_begin, job.window_end);
  CHECK_LE(job.window_end - job.window_begin, uint64_t{job.window.slots});
  return static_cast<uint32_t>(job.window_end - job.window_begin);
}

// One query's rows, in list order: the window, then its selected entries.
struct RowList {
  const AttendJob* job;
  uint32_t window;
  uint32_t count;
  float* rows;  // [count, stride]
};

class Attention {
 public:
  Attention(const AttendShape& shape, const Table& table)
      : shape_(shape), table_(table), stride_((uint64_t{shape.dims} + 15) / 16 * 16) {}

  uint64_t rows_floats(uint64_t rows) const { return rows * stride_; }
  static uint64_t score_stride(uint64_t rows) { return rows + 1; }

  RowList list(const AttendJob& job, float* rows) const {
    CHECK_EQ(job.window.dims, shape_.dims);
    const uint32_t window = window_count(job);
    const uint32_t selected = selected_count(job);
    if (selected > 0) CHECK_EQ(job.main.dims, shape_.dims);
    return {&job, window, window + selected, rows};
  }

  void decode(const RowList& list, uint32_t begin, uint32_t end) const {
    const AttendJob& job = *list.job;
    for (uint32_t i = begin; i < std::min(end, begin + kRowsAhead); ++i) fetch(list, i);
    for (uint32_t i = begin; i < end; ++i) {
      if (i + kRowsAhead < end) fetch(list, i + kRowsAhead);
      float* out = list.rows + i * stride_;
      if (stride_ != shape_.dims) std::fill(out + shape_.dims, out + stride_, 0.0f);
      const RowFormat format = i < list.window ? job.window.format : job.main.format;
      table_.decode_row(format, row_of(list, i), shape_.dims, out);
    }
  }

  static const std::byte* row_of(const RowList& list, uint32_t i) {
    const AttendJob& job = *list.job;
    if (i < list.window) return job.window.row(job.window_begin + i);
    return job.main.row(static_cast<uint64_t>(job.selected[i - list.window]));
  }

  // Selected entries lie anywhere in memory: a row that is not asked for ahead costs its latency.
  [[gnu::always_inline]] static void fetch(const RowList& list, uint32_t i) {
    const AttendJob& job = *list.job;
    internal::fetch_row(row_of(list, i),
                        i < list.window ? job.window.row_bytes : job.main.row_bytes);
  }

  // Whole register tiles, and some tasks for every worker.
  uint32_t heads_per_task(uint64_t jobs, uint64_t workers) const {
    const uint64_t tasks = divide_up(kTasksPerWorker * workers, jobs);
    const auto share = static_cast<uint32_t>(shape_.heads / tasks);
    return std::max(table_.attend_heads, share / table_.attend_heads * table_.attend_heads);
  }

  void heads(const RowList& list, uint32_t begin, uint32_t end, float* scores) const {
    AttendHeads task;
    task.q = list.job->q + uint64_t{begin} * shape_.dims;
    task.out = list.job->out + uint64_t{begin} * shape_.dims;
    task.sink = shape_.sink + begin;
    task.rows = list.rows;
    task.scores = scores;
    task.row_stride = stride_;
    task.score_stride = score_stride(list.count);
    task.heads = end - begin;
    task.dims = shape_.dims;
    task.count = list.count;
    task.scale = shape_.scale;
    table_.attend(task);
    if (shape_.pairs == 0) return;
    internal::rotate(task.out, task.heads, shape_.dims, list.job->cos, list.job->sin, shape_.pairs,
                     -1);
  }

 private:
  const AttendShape& shape_;
  const Table& table_;
  uint64_t stride_;
};

// One task a query.
void attend_jobs(std::span<const AttendJob> jobs, const AttendShape& shape,
                 const Attention& attention, uint64_t rows_max, uint64_t work, Context context) {
  const uint64_t row_floats = attention.rows_floats(rows_max);
  const uint64_t floats = row_floats + shape.heads * Attention::score_stride(rows_max) + 16;
  const std::span<float> scratch = context.workspace.take<float>(context.pool.size() * floats);
  internal::run_tasks(context, jobs.size(), work, [&](uint64_t index, uint32_t worker) {
    float* own = &scratch[worker * floats];
    const RowList list = attention.list(jobs[index], own);
    attention.decode(list, 0, list.count);
    attention.heads(list, 0, shape.heads, own + row_floats);
  });
}

// Rows first, then heads.
void attend_heads(std::span<const AttendJob> jobs, const AttendShape& shape,
                  const Attention& attention, uint64_t rows_max, Context context) {
  const std::span<RowList> lists = context.workspace.take<RowList>(jobs.size());
  internal::TaskMap row_tasks(context.workspace, jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    lists[i] = attention.list(jobs[i], nullptr);
    lists[i].rows = context.workspace.take<float>(attention.rows_floats(lists[i].count)).data();
    row_tasks.add(divide_up(lists[i].count, kRowsPerTask));
  }
  context.pool.parallel_for(row_tasks.count(), [&](uint64_t index, uint32_t) {
    const auto place = row_tasks.find(index);
    const RowList& list = lists[place.item];
    const uint32_t begin = static_cast<uint32_t>(place.task) * kRowsPerTask;
    attention.decode(list, begin, std::min(list.count, begin + kRowsPerTask));
  });
  const uint32_t per_task = attention.heads_per_task(jobs.size(), context.pool.size());
  const uint64_t groups = divide_up(shape.heads, per_task);
  const uint64_t floats = per_task * Attention::score_stride(rows_max) + 16;
  const std::span<float> scores = context.workspace.take<float>(context.pool.size() * floats);
  context.pool.parallel_for(jobs.size() * groups, [&](uint64_t index, uint32_t worker) {
    const uint32_t begin = static_cast<uint32_t>(index % groups) * per_task;
    const uint32_t end = std::min(shape.heads, begin + per_task);
    attention.heads(lists[index / groups], begin, end, &scores[worker * floats]);
  });
}

}  // namespace

void attend(std::span<const AttendJob> jobs, const AttendShape& shape, Context context) {
  CHECK_LE(2 * shape.pairs, uint64_t{shape.dims});
  const Attention attention(shape, kernels());
  const Workspace::Mark mark(context.workspace);
  uint64_t rows_max = 0;
  uint64_t work = 0;
  for (const AttendJob& job : jobs) {
    const uint64_t rows = uint64_t{window_count(job)} + selected_count(job);
    rows_max = std::max(rows_max, rows);
    work += 2 * rows * shape.heads * shape.dims;
  }
  const uint64_t workers = context.pool.size();
  if (workers == 1 || jobs.size() >= 2 * workers || work < internal::kInlineWork) {
    attend_jobs(jobs, shape, attention, rows_max, work, context);
  } else {
    attend_heads(jobs, shape, attention, rows_max, context);
  }
}

}  // namespace thimble::kernels
