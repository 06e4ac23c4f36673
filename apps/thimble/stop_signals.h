// Ctrl-C and SIGTERM for a command that must end in good order.
//
// Make one before any other thread starts: threads inherit the blocked signals. The first signal
// ends wait(), the next one ends the process; before wait() is called, the first ends the process.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace thimble::app {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Blocks until the first signal.
  void wait();

 private:
  void watch(const std::stop_token& stop);
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waiting_ = false;
  bool stopped_ = false;
  std::jthread thread_;
};

}  // namespace thimble::app
