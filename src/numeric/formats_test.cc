// Aim: every code of every element format decodes to the value its definition gives, and every
// rounding boundary goes to the right side.
// Method: decoders written from the definitions with ldexp; encoders compared with a search over
// all codes in exact (double) arithmetic, at each midpoint, its float32 neighbours and random bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "numeric/bf16.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace thimble::numeric {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// sign, exponent field, mantissa field of a small format without infinity, from its definition.
double decode_minifloat(uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = (code >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const bool negative = (code >> (mantissa_bits + exponent_bits)) & 1u;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  const double value = exponent == 0
                           ? std::ldexp(fraction, 1 - bias)
                           : std::ldexp(1.0 + fraction, static_cast<int>(exponent) - bias);
  return negative ? -value : value;
}

// The code whose value is nearest, ties to the even code, out of codes 0..last and their negatives;
// beyond the last it saturates.
uint32_t nearest_code(float value, const std::vector<double>& magnitudes, uint32_t sign_bit) {
  const double wanted = std::min(std::fabs(static_cast<double>(value)), magnitudes.back());
  uint32_t best = 0;
  for (uint32_t code = 1; code < magnitudes.size(); ++code) {
    const double gain = std::fabs(magnitudes[best] - wanted) - std::fabs(magnitudes[code] - wanted);
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(value) ? sign_bit : 0u);
}

// Code values, midpoints and the float32 neighbours of both; zeros, extremes; random bits.
std::vector<float> probes(const std::vector<double>& magnitudes) {
  std::vector<float> out;
  auto add = [&out](double v) {
    const float f = static_cast<float>(v);
    for (float x : {f, std::nextafter(f, kInf), std::nextafter(f, -kInf)}) {
      out.push_back(x);
      out.push_back(-x);
    }
  };
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    add(magnitudes[i]);
    if (i > 0) add((magnitudes[i] + magnitudes[i - 1]) / 2);
  }
  // What would be the next code after the largest one, and its midpoint.
  const double last = magnitudes.back();
  const double step = last - magnitudes[magnitudes.size() - 2];
  for (double v : {last + step / 2, last + step, 2 * last, 1e30}) add(v);
  for (float v : {0.0f, 1e-45f, 0x1p-126f, std::numeric_limits<float>::max(), kInf}) add(v);
  base::SplitMix64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const float bits = std::bit_cast<float>(static_cast<uint32_t>(random.next() >> 32));
    if (!std::isnan(bits)) out.push_back(bits);
    out.push_back(static_cast<float>((random.uniform() * 2 - 1) * 1.2 * last));
    out.push_back(static_cast<float>((random.uniform() * 2 - 1) * magnitudes[3]));
  }
  return out;
}

TEST(E4m3, DecodesEveryCode) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    const double expected = decode_minifloat(code, 4, 3, 7);
    EXPECT_EQ(value, expected) << code;
    EXPECT_EQ(std::signbit(value), std::signbit(expected)) << code;
    EXPECT_EQ(float_to_e4m3(value), code);
  }
}

TEST(E4m3, RoundsEveryBoundary) {
  std::vector<double> magnitudes;
  for (uint32_t code = 0; code < 0x7F; ++code)
    magnitudes.push_back(decode_minifloat(code, 4, 3, 7));
  ASSERT_EQ(magnitudes.back(), 448.0);
  for (float x : probes(magnitudes)) {
    ASSERT_EQ(float_to_e4m3(x), nearest_code(x, magnitudes, 0x80)) << x;
  }
  EXPECT_EQ(float_to_e4m3(kInf), 0x7E);
  EXPECT_EQ(float_to_e4m3(-kInf), 0xFE);
  EXPECT_EQ(float_to_e4m3(kNan), 0x7F);
  EXPECT_EQ(float_to_e4m3(-kNan), 0x7F);
}

TEST(E2m1, DecodesEveryCode) {
  for (uint32_t code = 0; code < 16; ++code) {
    const float value = e2m1_to_float(static_cast<uint8_t>(code));
    const double expected = decode_minifloat(code, 2, 1, 1);
    EXPECT_EQ(value, expected) << code;
    EXPECT_EQ(std::signbit(value), std::signbit(expected)) << code;
    EXPECT_EQ(float_to_e2m1(value), code);
  }
}

TEST(E2m1, RoundsEveryBoundary) {
  std::vector<double> magnitudes;
  for (uint32_t code = 0; code < 8; ++code) magnitudes.push_back(decode_minifloat(code, 2, 1, 1));
  ASSERT_EQ(magnitudes.back(), 6.0);
  for (float x : probes(magnitudes)) {
    ASSERT_EQ(float_to_e2m1(x), nearest_code(x, magnitudes, 8)) << x;
  }
  // Spec 3.1, in its own words.
  const float boundaries[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  const float results[] = {0.0f, 1.0f, 1.0f, 2.0f, 2.0f, 4.0f, 4.0f};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(e2m1_to_float(float_to_e2m1(boundaries[i])), results[i]);
  EXPECT_EQ(float_to_e2m1(-0.25f), 8);
  EXPECT_EQ(float_to_e2m1(kInf), 7);
  EXPECT_EQ(float_to_e2m1(-kInf), 15);
  EXPECT_EQ(float_to_e2m1(kNan), 7);
  EXPECT_EQ(float_to_e2m1(-kNan), 7);
}

TEST(E8m0, DecodesEveryByte) {
  for (int byte = 0; byte < 255; ++byte) {
    const float value = e8m0_to_float(static_cast<uint8_t>(byte));
    EXPECT_EQ(value, std::ldexp(1.0, byte - 127)) << byte;
    EXPECT_GT(value, 0.0f);
    EXPECT_EQ(e8m0_inverse(static_cast<uint8_t>(byte)), std::ldexp(1.0, 127 - byte)) << byte;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(0xFF)));
  EXPECT_TRUE(std::isnan(e8m0_inverse(0xFF)));
}

TEST(E8m0, CeilingOfPowersAndNeighbours) {
  for (int byte = 0; byte < 255; ++byte) {
    const float power = std::ldexp(1.0f, byte - 127);
    EXPECT_EQ(float_to_e8m0_ceil(power), byte);
    EXPECT_EQ(float_to_e8m0_ceil(std::nextafter(power, kInf)), std::min(byte + 1, 254));
    EXPECT_EQ(float_to_e8m0_ceil(std::nextafter(power, 0.0f)), byte) << byte;
  }
  EXPECT_EQ(float_to_e8m0_ceil(0.0f), 0);
  EXPECT_EQ(float_to_e8m0_ceil(-1.0f), 0);
  EXPECT_EQ(float_to_e8m0_ceil(1e-45f), 0);
  EXPECT_EQ(float_to_e8m0_ceil(kInf), 254);
  EXPECT_EQ(float_to_e8m0_ceil(kNan), 0xFF);
  EXPECT_EQ(float_to_e8m0_ceil(-kNan), 0xFF);
}

TEST(Bf16, DecodesEveryCode) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float value = bf16_to_float(static_cast<uint16_t>(code));
    if ((code & 0x7FFF) > 0x7F80) {
      EXPECT_TRUE(std::isnan(value));
      const uint16_t again = float_to_bf16(value);
      EXPECT_TRUE(std::isnan(bf16_to_float(again)));
      EXPECT_EQ(again, code | 0x40);
      continue;
    }
    if ((code & 0x7FFF) == 0x7F80) {
      EXPECT_TRUE(std::isinf(value));
    } else {
      ASSERT_EQ(value, decode_minifloat(code, 8, 7, 127)) << code;
    }
    ASSERT_EQ(float_to_bf16(value), code);
  }
}

TEST(Bf16, RoundsEveryBoundary) {
  // Between two neighbouring codes lie 2^16 floats; the middle one ties to the even code.
  for (uint32_t code = 0; code < 0x7F80; ++code) {
    const uint32_t middle = (code << 16) | 0x8000u;
    const uint32_t even = code + (code & 1u);
    for (uint32_t sign : {0u, 1u}) {
      auto rounded = [&](uint32_t bits) {
        return float_to_bf16(std::bit_cast<float>(bits | (sign << 31)));
      };
      ASSERT_EQ(rounded(middle), even | (sign << 15));
      ASSERT_EQ(rounded(middle - 1), code | (sign << 15));
      ASSERT_EQ(rounded(middle + 1), (code + 1) | (sign << 15));
    }
  }
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(round_bf16(1.00390625f), 1.0f);
}

// A NaN with an empty upper half must not become an infinity.
TEST(Bf16, KeepsNan) {
  EXPECT_TRUE(std::isnan(round_bf16(std::bit_cast<float>(0x7F800001u))));
  EXPECT_TRUE(std::isnan(round_bf16(std::bit_cast<float>(0xFF800001u))));
  EXPECT_TRUE(std::isnan(round_bf16(std::bit_cast<float>(0x7FFFFFFFu))));
}

// Bytes of the released checkpoint and what they mean, spec 2.2.
TEST(ReleasedBytes, Fp8Weight) {
  const uint8_t codes[] = {0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5};
  const float values[] = {-0.00390625f, 0.03515625f,  -0.0390625f, 0.0703125f,
                          0.03125f,     0.017578125f, -0.03125f,   -0.0126953125f};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(e4m3_to_float(codes[i]) * e8m0_to_float(0x73), values[i]);
  }
}

TEST(ReleasedBytes, Fp4Weight) {
  const uint8_t bytes[] = {0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa};
  const float values[] = {0.0f,        -0.0078125f, -0.0f,       -0.0078125f,
                          -0.015625f,  -0.03125f,   -0.0078125f, 0.015625f,
                          -0.0234375f, -0.0078125f, -0.046875f,  -0.0078125f,
                          0.0078125f,  0.015625f,   -0.0078125f, -0.0078125f};
  for (int i = 0; i < 16; ++i) {
    const uint8_t nibble = static_cast<uint8_t>(i % 2 == 0 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4);
    const float value = e2m1_to_float(nibble) * e8m0_to_float(0x78);
    EXPECT_EQ(value, values[i]) << i;
    EXPECT_EQ(std::signbit(value), std::signbit(values[i])) << i;
  }
}

}  // namespace
}  // namespace thimble::numeric
