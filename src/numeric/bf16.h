// BF16: the upper half of a float32. Values only; rounding is to nearest, ties to even.
//
// Backbone spec section 3 calls the rounding B(). A NaN stays a (quiet) NaN, overflow gives
// infinity.
#pragma once

#include <bit>
#include <cstdint>

namespace thimble::numeric {

constexpr float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

constexpr uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// B(x): the nearest BF16 value, as a float.
constexpr float round_bf16(float value) { return bf16_to_float(float_to_bf16(value)); }

}  // namespace thimble::numeric
