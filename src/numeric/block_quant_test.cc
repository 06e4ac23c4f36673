// Aim: the block quantisers choose the scale and the codes that spec 3.2 prescribes.
// Method: the known answers of spec 10.1, scale edges, a slow quantiser written from the formulas
// with ldexp and frexp over many magnitudes, and NaN, infinity, zero, denormals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "numeric/bf16.h"
#include "numeric/block_fp8.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "numeric/kv_fp4.h"
#include "numeric/mxfp4.h"

namespace thimble::numeric {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
std::vector<T> ramp() {
  std::vector<T> x;
  for (int i = 0; i < 32; ++i) {
    x.push_back(static_cast<T>(round_bf16(static_cast<float>((i - 15.5) * 0.37))));
  }
  return x;
}

std::vector<uint8_t> packed(const std::vector<uint8_t>& codes) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < codes.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(codes[i] | (codes[i + 1] << 4)));
  }
  return bytes;
}

template <class T>
class BlockQuant : public testing::Test {};
using Inputs = testing::Types<float, double>;
TYPED_TEST_SUITE(BlockQuant, Inputs);

TYPED_TEST(BlockQuant, KnownAnswersFp8) {
  const auto x = ramp<TypeParam>();
  std::vector<uint8_t> codes(32);
  EXPECT_EQ(quantize_fp8_group(x.data(), codes.data()), 121);
  const std::vector<uint8_t> expected = {0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf8, 0xf6, 0xf5,
                                         0xf3, 0xf2, 0xf0, 0xed, 0xea, 0xe7, 0xe1, 0xd4,
                                         0x54, 0x61, 0x67, 0x6a, 0x6d, 0x70, 0x72, 0x73,
                                         0x75, 0x76, 0x78, 0x78, 0x79, 0x7a, 0x7b, 0x7c};
  EXPECT_EQ(codes, expected);
}

TYPED_TEST(BlockQuant, KnownAnswersMxfp4) {
  const auto x = ramp<TypeParam>();
  std::vector<uint8_t> codes(32);
  EXPECT_EQ(quantize_mxfp4_group(x.data(), codes.data()), 127);
  const std::vector<uint8_t> expected = {0xff, 0xee, 0xee, 0xde, 0xcd, 0xbc, 0xab, 0x89,
                                         0x10, 0x32, 0x43, 0x54, 0x65, 0x66, 0x66, 0x77};
  EXPECT_EQ(packed(codes), expected);
}

TYPED_TEST(BlockQuant, KnownAnswersKvFp4) {
  auto x = ramp<TypeParam>();
  std::vector<uint8_t> codes(16);
  EXPECT_EQ(quantize_kv_fp4_group(x.data(), codes.data()), 0x37);
  const std::vector<uint8_t> first = {0xff, 0xef, 0xee, 0xde, 0xdd, 0xcc, 0xab, 0x89};
  EXPECT_EQ(packed(codes), first);
  EXPECT_EQ(quantize_kv_fp4_group(x.data() + 16, codes.data()), 0x37);
  const std::vector<uint8_t> second = {0x10, 0x32, 0x44, 0x55, 0x65, 0x66, 0x76, 0x77};
  EXPECT_EQ(packed(codes), second);
  round_kv_fp4(x.data(), 32);
  EXPECT_EQ(x[0], TypeParam{-5.625});
  EXPECT_EQ(x[2], TypeParam{-5.625});
  EXPECT_EQ(x[3], TypeParam{-3.75});
}

TYPED_TEST(BlockQuant, ScaleEdges) {
  std::vector<TypeParam> x(32, TypeParam{0});
  std::vector<uint8_t> codes(32);
  auto fp8 = [&](TypeParam amax) {
    x[7] = -amax;
    return e8m0_to_float(quantize_fp8_group(x.data(), codes.data()));
  };
  auto mxfp4 = [&](TypeParam amax) {
    x[7] = -amax;
    return e8m0_to_float(quantize_mxfp4_group(x.data(), codes.data()));
  };
  EXPECT_EQ(fp8(448), 1.0f);
  EXPECT_EQ(fp8(449), 2.0f);
  EXPECT_EQ(fp8(7), 0x1p-6f);
  EXPECT_EQ(mxfp4(6), 1.0f);
  EXPECT_EQ(mxfp4(7), 2.0f);
  EXPECT_EQ(mxfp4(TypeParam{0.75}), 0.125f);
  // An exact 448 * 2^k or 6 * 2^k never bumps the scale.
  for (int k = -12; k < 100; ++k) {
    EXPECT_EQ(fp8(static_cast<TypeParam>(std::ldexp(448.0, k))), std::ldexp(1.0, k));
    EXPECT_EQ(mxfp4(static_cast<TypeParam>(std::ldexp(6.0, k))), std::ldexp(1.0, k));
  }
  // All zero: spec 3.2.
  EXPECT_EQ(fp8(0), std::ldexp(1.0, 105 - 127));
  EXPECT_EQ(mxfp4(0), std::ldexp(1.0, 1 - 127));
  EXPECT_EQ(e4m3_to_float(quantize_kv_fp4_group(x.data(), codes.data())), 0x1p-9f);
}

// Spec 3.2 word for word, without bit tricks. Scale first, then codes.
float ceil_power(float v) {
  int exponent = 0;
  const float fraction = std::frexp(v, &exponent);  // v = fraction * 2^exponent, [0.5, 1)
  return std::ldexp(1.0f, fraction == 0.5f ? exponent - 1 : exponent);
}

struct Slow {
  uint32_t group;
  float floor;
  float (*scale)(float amax);
  float (*element)(float value);
};

const Slow kSlow[] = {
    {32, 1e-4f, [](float amax) { return ceil_power(amax * (1.0f / 448.0f)); },
     [](float v) { return e4m3_to_float(float_to_e4m3(v)); }},
    {32, 6.0f * 0x1p-126f, [](float amax) { return ceil_power(amax * (1.0f / 6.0f)); },
     [](float v) { return e2m1_to_float(float_to_e2m1(v)); }},
    {16, 6.0f * 0x1p-9f, [](float amax) { return e4m3_to_float(float_to_e4m3(amax / 6.0f)); },
     [](float v) { return e2m1_to_float(float_to_e2m1(v)); }},
};

template <class T>
void slow_round(const Slow& format, std::vector<T>& x) {
  for (size_t begin = 0; begin < x.size(); begin += format.group) {
    T amax = static_cast<T>(format.floor);
    for (size_t i = 0; i < format.group; ++i) amax = std::max(amax, std::fabs(x[begin + i]));
    const float scale = format.scale(static_cast<float>(amax));
    for (size_t i = 0; i < format.group; ++i) {
      T& v = x[begin + i];
      v = static_cast<T>(format.element(static_cast<float>(v / static_cast<T>(scale))) * scale);
    }
  }
}

TYPED_TEST(BlockQuant, EqualsTheFormulasAtEveryMagnitude) {
  base::SplitMix64 random(7);
  for (int exponent = -150; exponent <= 120; exponent += 3) {
    std::vector<TypeParam> x(64);
    for (TypeParam& v : x) {
      v = static_cast<TypeParam>(std::ldexp(random.normal(), exponent));
      // Inputs are what the engine would hold: float32 values, also in double.
      v = static_cast<TypeParam>(static_cast<float>(v));
    }
    auto fp8 = x, mxfp4 = x, kv = x;
    round_fp8(fp8.data(), 64);
    round_mxfp4(mxfp4.data(), 64);
    round_kv_fp4(kv.data(), 64);
    auto slow = x;
    slow_round(kSlow[0], slow);
    EXPECT_EQ(fp8, slow) << exponent;
    slow = x;
    slow_round(kSlow[1], slow);
    EXPECT_EQ(mxfp4, slow) << exponent;
    slow = x;
    slow_round(kSlow[2], slow);
    EXPECT_EQ(kv, slow) << exponent;
  }
}

// Rounding a rounded row changes nothing, and what it decodes to is exact in BF16 (spec 7.4).
TYPED_TEST(BlockQuant, RoundedValuesAreBf16AndStay) {
  base::SplitMix64 random(9);
  std::vector<TypeParam> x(32 * 200);
  for (TypeParam& v : x) v = static_cast<TypeParam>(random.normal() * 3);
  auto fp8 = x;
  round_fp8(fp8.data(), fp8.size());
  auto again = fp8;
  round_fp8(again.data(), again.size());
  EXPECT_EQ(again, fp8);
  auto kv = x;
  round_kv_fp4(kv.data(), kv.size());
  for (const auto& values : {fp8, kv}) {
    for (TypeParam v : values) ASSERT_EQ(round_bf16(static_cast<float>(v)), v);
  }
}

TYPED_TEST(BlockQuant, NanPoisonsItsGroupOnly) {
  std::vector<TypeParam> x(64, TypeParam{1});
  x[40] = static_cast<TypeParam>(kNan);
  std::vector<uint8_t> codes(32);
  EXPECT_EQ(quantize_fp8_group(x.data() + 32, codes.data()), kE8m0Nan);
  EXPECT_EQ(codes, std::vector<uint8_t>(32, kE4m3Nan));
  EXPECT_EQ(quantize_mxfp4_group(x.data() + 32, codes.data()), kE8m0Nan);
  EXPECT_EQ(codes, std::vector<uint8_t>(32, 7));
  EXPECT_EQ(quantize_kv_fp4_group(x.data() + 32, codes.data()), kE4m3Nan);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(codes[static_cast<size_t>(i)], 7);
  auto check = [&](auto round, size_t group) {
    auto y = x;
    round(y.data(), y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i / group == 40 / group) << i;
    }
  };
  check(round_fp8<TypeParam>, 32);
  check(round_mxfp4<TypeParam>, 32);
  check(round_kv_fp4<TypeParam>, 16);
}

TYPED_TEST(BlockQuant, InfinitySaturatesTheScale) {
  std::vector<TypeParam> x(32, TypeParam{1});
  x[3] = static_cast<TypeParam>(-kInf);
  std::vector<uint8_t> codes(32);
  EXPECT_EQ(quantize_fp8_group(x.data(), codes.data()), 254);
  EXPECT_EQ(codes[3], 0xFE);
  EXPECT_EQ(codes[0], 0);
  EXPECT_EQ(quantize_mxfp4_group(x.data(), codes.data()), 254);
  EXPECT_EQ(codes[3], 15);
  EXPECT_EQ(quantize_kv_fp4_group(x.data(), codes.data()), 0x7E);
  EXPECT_EQ(codes[3], 15);
  auto kv = x;
  round_kv_fp4(kv.data(), 32);
  EXPECT_EQ(kv[3], TypeParam{-2688});
}

// Every scale, every boundary: the quotient, not a product with a rounded reciprocal, decides a
// tie.
TEST(KvFp4, BoundariesUnderEveryScale) {
  const float boundaries[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  for (uint8_t code = 1; code < kE4m3Nan; ++code) {
    const float scale = e4m3_to_float(code);
    std::vector<float> x(16, 0.0f);
    for (size_t i = 0; i < 7; ++i) {
      x[i] = boundaries[i] * scale;
      x[7 + i] = std::nextafter(boundaries[i] * scale, kInf);
    }
    x[15] = -6.0f * scale;
    std::vector<uint8_t> codes(16);
    ASSERT_EQ(quantize_kv_fp4_group(x.data(), codes.data()), code);
    for (size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(codes[i], float_to_e2m1(boundaries[i])) << scale;
      EXPECT_EQ(codes[7 + i], float_to_e2m1(std::nextafter(boundaries[i], kInf))) << scale;
    }
  }
}

TEST(KvFp4, ScaleMayRoundDownAndThenSaturates) {
  std::vector<float> x(16, 0.0f);
  x[0] = 6.2f;  // 6.2 / 6 = 1.033 rounds to 1
  std::vector<uint8_t> codes(16);
  EXPECT_EQ(e4m3_to_float(quantize_kv_fp4_group(x.data(), codes.data())), 1.0f);
  EXPECT_EQ(codes[0], 7);
}

TEST(BlockQuantDeathTest, RefusesPartialGroups) {
  std::vector<float> x(40);
  EXPECT_DEATH(round_fp8(x.data(), 40), "CHECK");
}

}  // namespace
}  // namespace thimble::numeric
