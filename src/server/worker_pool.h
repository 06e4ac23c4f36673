// A few threads for work that must block neither I/O nor the engine: JSON, tokenising, rendering.
//
// Tasks start in the order posted. The queue is not bounded here: what is posted is bounded by
// connections (one request each) and by running answers (one task each). Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace thimble::server {

class WorkerPool {
 public:
  explicit WorkerPool(uint32_t threads);
  ~WorkerPool();  // close()
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Tasks must not throw. After close() they are dropped.
  void post(std::function<void()> task);

  // Finishes what was posted and joins. Not from a task.
  void close();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace thimble::server
