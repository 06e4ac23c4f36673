// Time: a monotonic clock in microseconds and the wall clock in seconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace thimble::base {

// Microseconds since an arbitrary start; never goes back.
inline int64_t monotonic_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

// Seconds since 1970, for timestamps that leave the process.
inline int64_t wall_seconds() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace thimble::base
