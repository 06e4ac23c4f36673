#include "base/thread_pool.h"

#include <sched.h>

#include "base/check.h"

namespace thimble::base {
namespace {

constexpr uint32_t kStop = 1u << 31;
constexpr int kSpins = 2000;  // about 20 us: longer than the gap between two operations of a step

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
  for (uint32_t worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  epoch_.fetch_or(kStop);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(uint64_t count, void* context, Call call) {
  if (workers_.empty() || count <= 1) {
    for (uint64_t index = 0; index < count; ++index) call(context, index, 0);
    return;
  }
  CHECK_EQ(running_.load(), 0u);
  call_ = call;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  drain(0);
  for (uint32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    for (int spin = 0; spin < kSpins && running_.load(std::memory_order_acquire) == left; ++spin) {
      pause();
    }
    running_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::drain(uint32_t worker) {
  for (uint64_t index = next_.fetch_add(1, std::memory_order_relaxed); index < count_;
       index = next_.fetch_add(1, std::memory_order_relaxed)) {
    call_(context_, index, worker);
  }
}

void ThreadPool::work(uint32_t worker) {
  uint32_t seen = 0;
  while (true) {
    for (int spin = 0; spin < kSpins && epoch_.load(std::memory_order_acquire) == seen; ++spin) {
      pause();
    }
    epoch_.wait(seen, std::memory_order_acquire);
    const uint32_t now = epoch_.load(std::memory_order_acquire);
    if ((now & kStop) != 0) return;
    if (now == seen) continue;
    seen = now;
    drain(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
  }
}

}  // namespace thimble::base
