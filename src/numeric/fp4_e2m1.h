// E2M1 (FP4): a sign in bit 3 and one of eight magnitudes in bits 2..0. No infinity and no NaN.
// Backbone spec 2.2 and 3.1.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace thimble::numeric {

inline constexpr float kE2m1Max = 6.0f;

namespace internal {
inline constexpr std::array<float, 16> kE2m1Table = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                     4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                     -2.0f, -3.0f, -4.0f, -6.0f};
}  // namespace internal

// Bits above the fourth are ignored.
constexpr float e2m1_to_float(uint8_t code) { return internal::kE2m1Table[code & 15u]; }

// To nearest, ties to the even code, saturating at +-6; the sign of zero is kept. The format has no
// NaN: one gives +6, and the block quantisers mark their group by its scale.
constexpr uint8_t float_to_e2m1(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 28) & 8u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 7;
  uint32_t code = 7;
  if (magnitude < 0x3F800000u) {
    // Below 1 codes are multiples of 1/2, which is the last place of 2^22: let the adder round.
    const float sum = std::bit_cast<float>(magnitude) + 0x1p22f;
    code = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0x1p22f);
  } else if (magnitude < 0x40C00000u) {
    const uint32_t rounded = magnitude + 0x1FFFFFu + ((magnitude >> 22) & 1u);
    code = (rounded >> 22) - (126u << 1);
  }
  return static_cast<uint8_t>(sign | code);
}

}  // namespace thimble::numeric
