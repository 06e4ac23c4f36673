// The one thread that writes streams: JSON of what the engine said, handed to the connections.
//
// After every step of the engine each running stream has a piece of text. Waking a thread costs
// more than a piece, and costs the engine's own thread, so pieces wait for company: for those of
// the same step (kStepUs), and where a stream's tokens come faster than anybody reads, for its next
// ones (kStreamUs after its last writing). Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace thimble::server {

class StreamThread {
 public:
  static constexpr int64_t kStepUs = 500;
  static constexpr int64_t kStreamUs = 16'000;  // a screen shows no more

  StreamThread();
  ~StreamThread();  // close()
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  // A stream's piece; `written_us` is when the stream was last written, by base::monotonic_us(),
  // or 0. Tasks that are due run in the order posted; they must not throw. After close() they are
  // dropped.
  void post(std::function<void()> task, int64_t written_us);

  // Everything posted is due now.
  void hurry();

  // Finishes what was posted and joins. Not from a task.
  void close();

 private:
  struct Waiting {
    int64_t due_us = 0;
    std::function<void()> task;
  };
  void work();
  std::vector<Waiting> take_due(int64_t now_us);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Waiting> waiting_;
  int64_t wakes_us_;  // when the thread looks again by itself
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace thimble::server
