// E4M3 (the OCP "FN" variant): sign, 4 exponent bits with bias 7, 3 mantissa bits. No infinity;
// 0x7F and 0xFF are NaN; the largest value is 448. Backbone spec 2.2 and 3.1.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace thimble::numeric {

inline constexpr float kE4m3Max = 448.0f;
inline constexpr uint8_t kE4m3Nan = 0x7F;

namespace internal {

constexpr std::array<float, 256> make_e4m3_table() {
  std::array<float, 256> table{};
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t exponent = (code >> 3) & 15u;
    const uint32_t mantissa = code & 7u;
    float value = static_cast<float>(mantissa) * 0x1p-9f;
    if (exponent != 0) {
      value = std::bit_cast<float>(((exponent + 120u) << 23) | (mantissa << 20));
    }
    if ((code & 0x7Fu) == kE4m3Nan) value = std::bit_cast<float>(0x7FC00000u);
    table[code] = (code & 0x80u) != 0 ? -value : value;
  }
  return table;
}

inline constexpr std::array<float, 256> kE4m3Table = make_e4m3_table();

}  // namespace internal

constexpr float e4m3_to_float(uint8_t code) { return internal::kE4m3Table[code]; }

// To nearest, ties to even, saturating at +-448 (infinity too). Every NaN gives 0x7F.
constexpr uint8_t float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return kE4m3Nan;
  uint32_t code = 0x7E;
  if (magnitude < 0x3C800000u) {
    // Below 2^-6 codes are multiples of 2^-9, which is the last place of 2^14: let the adder round.
    const float sum = std::bit_cast<float>(magnitude) + 0x1p14f;
    code = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0x1p14f);
  } else if (magnitude < 0x43E00000u) {
    const uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
    code = (rounded >> 20) - (120u << 3);
  }
  return static_cast<uint8_t>(sign | code);
}

}  // namespace thimble::numeric
