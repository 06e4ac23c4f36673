// E8M0: a power-of-two scale, 2^(byte - 127); 0xFF is NaN. Backbone spec 2.2 and 3.1.
//
// Byte 0 is 2^-127, a float32 subnormal: shifting the byte into the exponent field would give zero.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace thimble::numeric {

inline constexpr uint8_t kE8m0Nan = 0xFF;

namespace internal {

constexpr std::array<float, 256> make_e8m0_table() {
  std::array<float, 256> table{};
  for (uint32_t byte = 1; byte < kE8m0Nan; ++byte) table[byte] = std::bit_cast<float>(byte << 23);
  table[0] = 0x1p-127f;
  table[kE8m0Nan] = std::bit_cast<float>(0x7FC00000u);
  return table;
}

inline constexpr std::array<float, 256> kE8m0Table = make_e8m0_table();

}  // namespace internal

constexpr float e8m0_to_float(uint8_t byte) { return internal::kE8m0Table[byte]; }

// 1 / e8m0_to_float(byte), exact: 2^(127 - byte).
constexpr float e8m0_inverse(uint8_t byte) {
  if (byte == kE8m0Nan) return std::bit_cast<float>(0x7FC00000u);
  return e8m0_to_float(static_cast<uint8_t>(254 - byte));
}

// P(v) of spec 3.1: the byte of the smallest power of two >= v, read off the bits. Values up to
// 2^-127, zero and negative ones give byte 0; above 2^127, infinity included, 254; NaN gives NaN.
constexpr uint8_t float_to_e8m0_ceil(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return kE8m0Nan;
  if ((bits >> 31) != 0 || bits <= 0x00400000u) return 0;
  const uint32_t byte = (bits >> 23) + ((bits & 0x7FFFFFu) != 0 ? 1u : 0u);
  return static_cast<uint8_t>(byte > 254u ? 254u : byte);
}

}  // namespace thimble::numeric
