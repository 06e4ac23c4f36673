// Asking for memory before it is read. Inlined always: GCC takes a function that only fetches for
// one without effect, and leaves calls of it out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thimble::kernels::internal {

inline constexpr uint64_t kCacheLine = 64;

// Whole lines: `at` begins one, or a line more or less does not matter.
[[gnu::always_inline]] inline void fetch(const std::byte* at, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(at + i);
}

// Every line that a row of any alignment touches. REQUIRES: bytes > 0.
[[gnu::always_inline]] inline void fetch_row(const std::byte* row, uint64_t bytes) {
  fetch(row, bytes);
  __builtin_prefetch(row + bytes - 1);
}

}  // namespace thimble::kernels::internal
