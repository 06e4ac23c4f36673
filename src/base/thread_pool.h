// A fixed set of compute threads for one caller at a time.
//
// The calling thread is worker 0; the others wait. Every worker begins with a run of consecutive
// task numbers and takes them in order, so that it reads weights front to back; whoever has none
// left takes the later half of another's run. Which worker runs a task is thus not fixed: a task
// must depend on its number alone (row purity, ARCHITECTURE.md, makes the assignment irrelevant to
// the result).
//
// A job never waits for a worker that has not begun it: on a machine with other things to do the
// caller does the work of those that the system has not woken yet.
//
// Not re-entrant: a task must not call parallel_for of the same pool. One thread may use the pool
// at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace thimble::base {

class ThreadPool {
 public:
  // `threads` counts the caller; 0 means one per CPU this process may run on.
  explicit ThreadPool(uint32_t threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(workers_.size()) + 1; }

  // Calls task(index, worker) for index in [0, count) and returns when all are done. `worker` is
  // below size() and unique among the tasks running at that moment. Tasks must not throw.
  // REQUIRES: count < 2^32.
  template <class Task>
  void parallel_for(uint64_t count, Task&& task) {
    using Plain = std::remove_reference_t<Task>;
    run(count, const_cast<void*>(static_cast<const void*>(&task)),
        [](void* context, uint64_t index, uint32_t worker) {
          (*static_cast<Plain*>(context))(index, worker);
        });
  }

 private:
  using Call = void (*)(void* context, uint64_t index, uint32_t worker);
  void run(uint64_t count, void* context, Call call);
  void work(uint32_t worker);
  void drain(uint32_t worker);
  bool take(uint32_t worker, uint64_t& index);
  bool take_over(uint32_t worker);

  // Tasks [begin, end) that nobody has begun: begin above, end in the lower half. A cache line of
  // its own: its worker changes it once a task.
  struct alignas(64) Run {
    std::atomic<uint64_t> tasks{0};
  };

  Call call_ = nullptr;
  void* context_ = nullptr;
  std::unique_ptr<Run[]> runs_;     // [size()]
  std::atomic<uint32_t> state_{0};  // bit 0: stop, bit 1: a job is open, above: its number
  std::atomic<uint32_t> active_{
      0};  // workers that are in the open job, or looking whether there is
  std::vector<std::thread> workers_;
};

// CPUs this process may run on (its affinity mask), at least 1.
uint32_t available_cpus();

}  // namespace thimble::base
