// Cutting an operation into tasks for the pool. The cut depends on shapes alone, and no result
// depends on the cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/ops.h"

namespace thimble::kernels::internal {

// Multiply-adds (or elements) below which waking the pool costs more than it brings.
inline constexpr uint64_t kInlineWork = 48 * 1024;
// What one task should hold: some ten microseconds.
inline constexpr uint64_t kTaskWork = 256 * 1024;

constexpr uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// task(index, worker) for index in [0, count), on the pool if there is enough work.
template <class Task>
void run_tasks(Context context, uint64_t count, uint64_t work, Task&& task) {
  if (count > 1 && work >= kInlineWork && context.pool.size() > 1) {
    context.pool.parallel_for(count, task);
    return;
  }
  for (uint64_t index = 0; index < count; ++index) task(index, uint32_t{0});
}

// task(row) for row in [0, rows), several rows a task.
template <class Task>
void for_rows(Context context, uint64_t rows, uint64_t work_per_row, Task&& task) {
  const uint64_t step = std::max<uint64_t>(1, kTaskWork / std::max<uint64_t>(1, work_per_row));
  run_tasks(context, divide_up(rows, step), rows * work_per_row, [&](uint64_t index, uint32_t) {
    const uint64_t end = std::min(rows, (index + 1) * step);
    for (uint64_t row = index * step; row < end; ++row) task(row);
  });
}

// Numbers the tasks of several items: item i has counts[i] of them.
class TaskMap {
 public:
  struct Place {
    uint64_t item;
    uint64_t task;  // within the item
  };

  // Room for `items` items, from the workspace; valid until the caller's Mark goes.
  TaskMap(Workspace& workspace, uint64_t items) : starts_(workspace.take<uint64_t>(items + 1)) {
    starts_[0] = 0;
  }
  void add(uint64_t tasks) {
    starts_[items_ + 1] = starts_[items_] + tasks;
    ++items_;
  }
  uint64_t count() const { return starts_[items_]; }
  Place find(uint64_t index) const {
    const auto begin = starts_.begin();
    const auto after = std::upper_bound(begin, begin + static_cast<int64_t>(items_) + 1, index);
    const uint64_t item = static_cast<uint64_t>(after - begin) - 1;
    return {item, index - starts_[item]};
  }

 private:
  std::span<uint64_t> starts_;
  uint64_t items_ = 0;
};

}  // namespace thimble::kernels::internal
