// Time: a monotonic clock in microseconds and the wall clock in seconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace thimble::base {

// Microseconds since an arbitrary start; never goes back.
inline int64_t monotonic_us() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_start).count();
}

// Seconds since 1970, for timestamps that leave the process.
inline int64_t wall_seconds() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
}

}  // namespace thimble::base
