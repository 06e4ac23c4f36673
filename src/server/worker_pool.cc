#include "server/worker_pool.h"

#include <exception>

#include "base/check.h"

namespace thimble::server {

WorkerPool::WorkerPool(uint32_t threads) {
  CHECK_GE(threads, 1u);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() { close(); }

void WorkerPool::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void WorkerPool::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    try {
      task();
    } catch (const std::exception& thrown) {
      base::check_failed(__FILE__, __LINE__, "no exception leaves a worker's task", thrown.what());
    }
  }
}

}  // namespace thimble::server
