// Views of bytes, little-endian loads, and counts for people.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace thimble::base {

static_assert(std::endian::native == std::endian::little, "files and kernels are little-endian");

using Bytes = std::span<const std::byte>;

// REQUIRES: sizeof(T) readable bytes at `from`; any alignment.
template <class T>
T load(const void* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// "1.53 GiB"; whole bytes below 1 KiB.
std::string human_bytes(uint64_t bytes);

// 510286023000 -> "510,286,023,000"
std::string with_commas(uint64_t value);

// counted(1, "mismatch", "mismatches") -> "1 mismatch"; with commas.
std::string counted(uint64_t count, std::string_view one, std::string_view many);

constexpr uint64_t div_ceil(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace thimble::base

namespace thimble {
using base::Bytes;
}  // namespace thimble
