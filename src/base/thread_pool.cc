#include "base/thread_pool.h"

#include <sched.h>

#include "base/check.h"

namespace thimble::base {
namespace {

constexpr uint32_t kStop = 1;
constexpr uint32_t kOpen = 2;
constexpr uint32_t kJob = 4;  // what the number of a job counts in
constexpr int kSpins = 2000;  // about 20 us: longer than the gap between two operations of a step

constexpr uint64_t kMost = 0xFFFFFFFF;
constexpr uint64_t packed(uint64_t begin, uint64_t end) { return begin << 32 | end; }
constexpr uint64_t begin_of(uint64_t run) { return run >> 32; }
constexpr uint64_t end_of(uint64_t run) { return run & kMost; }

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

uint32_t available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? static_cast<uint32_t>(count) : 1;
}

ThreadPool::ThreadPool(uint32_t threads) {
  if (threads == 0) threads = available_cpus();
  runs_ = std::make_unique<Run[]>(threads);
  for (uint32_t worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_.fetch_or(kStop);
  state_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// A job is open until its tasks have been handed out. A worker enters by counting itself active and
// then looking whether a job is open; the caller closes the job and then looks whether anybody is
// active. In the one order of these four (all sequentially consistent) either the caller sees the
// worker and waits for it, or the worker sees that it came too late.
void ThreadPool::run(uint64_t count, void* context, Call call) {
  if (workers_.empty() || count <= 1) {
    for (uint64_t index = 0; index < count; ++index) call(context, index, 0);
    return;
  }
  const uint32_t before = state_.load();
  CHECK((before & kOpen) == 0);
  call_ = call;
  context_ = context;
  CHECK_LE(count, kMost);
  for (uint64_t w = 0; w < size(); ++w) {
    runs_[w].tasks.store(packed(count * w / size(), count * (w + 1) / size()));
  }
  const uint32_t job = before + kJob;
  state_.store(job | kOpen);
  state_.notify_all();
  drain(0);
  state_.store(job);
  for (uint32_t left = active_.load(); left != 0; left = active_.load()) {
    for (int spin = 0; spin < kSpins && active_.load() == left; ++spin) pause();
    active_.wait(left);
  }
}

void ThreadPool::drain(uint32_t worker) {
  do {
    for (uint64_t index = 0; take(worker, index);) call_(context_, index, worker);
  } while (take_over(worker));
}

// The next task of its own run; false: it has none.
bool ThreadPool::take(uint32_t worker, uint64_t& index) {
  std::atomic<uint64_t>& own = runs_[worker].tasks;
  uint64_t seen = own.load();
  while (begin_of(seen) < end_of(seen)) {
    if (own.compare_exchange_weak(seen, packed(begin_of(seen) + 1, end_of(seen)))) {
      index = begin_of(seen);
      return true;
    }
  }
  return false;
}

// The later half of another's run becomes the worker's own; false: nobody has any left. No run ever
// returns to what it was within a job, because a task is taken once.
bool ThreadPool::take_over(uint32_t worker) {
  for (uint32_t i = 1; i < size(); ++i) {
    std::atomic<uint64_t>& other = runs_[(worker + i) % size()].tasks;
    uint64_t seen = other.load();
    while (begin_of(seen) < end_of(seen)) {
      const uint64_t middle = (begin_of(seen) + end_of(seen)) / 2;
      if (other.compare_exchange_weak(seen, packed(begin_of(seen), middle))) {
        runs_[worker].tasks.store(packed(middle, end_of(seen)));
        return true;
      }
    }
  }
  return false;
}

void ThreadPool::work(uint32_t worker) {
  uint32_t done = 0;  // the last job this worker was in
  while (true) {
    const uint32_t seen = state_.load();
    if ((seen & kStop) != 0) return;
    if ((seen & kOpen) == 0 || seen == done) {
      for (int spin = 0; spin < kSpins && state_.load() == seen; ++spin) pause();
      state_.wait(seen);
      continue;
    }
    active_.fetch_add(1);
    const uint32_t entered = state_.load();
    if ((entered & kOpen) != 0) {
      done = entered;
      drain(worker);
    }
    if (active_.fetch_sub(1) == 1) active_.notify_all();
  }
}

}  // namespace thimble::base
