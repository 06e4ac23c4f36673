// A request's sink that only waits for its end.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "engine/request.h"

namespace thimble::app {

class Waiter : public engine::GenerationSink {
 public:
  Next on_token(const engine::GeneratedToken&) override { return Next::kContinue; }
  void on_end(const engine::GenerationEnd& end) override {
    const std::lock_guard lock(mutex_);
    end_ = end;
    changed_.notify_all();
  }
  engine::GenerationEnd wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return end_.has_value(); });
    return *end_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<engine::GenerationEnd> end_;
};

}  // namespace thimble::app
