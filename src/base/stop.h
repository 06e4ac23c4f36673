// Whether anybody still waits for a piece of work: until somebody ends it, or its time is over.
//
// Whoever works asks now and then, and gives up once nobody waits. request() and the questions may
// be called from any thread; the deadline is fixed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace thimble::base {

class Stop {
 public:
  // `deadline_us`: of monotonic_us(); empty: none.
  explicit Stop(std::optional<int64_t> deadline_us = {}) : deadline_us_(deadline_us) {}

  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }
  bool overdue() const { return deadline_us_ && *deadline_us_ <= monotonic_us(); }
  bool due() const { return requested() || overdue(); }

 private:
  std::atomic<bool> requested_{false};
  const std::optional<int64_t> deadline_us_;
};

}  // namespace thimble::base
