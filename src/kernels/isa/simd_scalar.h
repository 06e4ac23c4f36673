// The 16-lane vector in plain C++: the definition that the other instruction sets must equal.
//
// A vector type offers what the algorithms in generic/ are written in. Rules all of them keep:
//  - fma rounds once; min, max and the selects treat NaN as the comparison written beside them;
//  - a load of n < 16 elements fills the other lanes with zero and does not touch their memory;
//  - sum() adds halves: lane i + lane i+8, then 4, 2, 1 apart.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/isa/tiles.h"
#include "numeric/bf16.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace thimble::kernels::scalar {

struct Vec {
  using Tiles = Tiles2;

  float lane[16];

  static Vec zero() { return set(0.0f); }
  static Vec set(float value) {
    Vec r;
    for (float& x : r.lane) x = value;
    return r;
  }
  static Vec load(const float* p, uint32_t n = 16) {
    Vec r = zero();
    std::memcpy(r.lane, p, n * sizeof(float));
    return r;
  }
  // float32 at any alignment.
  static Vec load_f32(const std::byte* p, uint32_t n = 16) {
    Vec r = zero();
    std::memcpy(r.lane, p, n * sizeof(float));
    return r;
  }
  static Vec load_bf16(const std::byte* p, uint32_t n = 16) {
    Vec r = zero();
    for (uint32_t i = 0; i < n; ++i) {
      uint16_t bits;
      std::memcpy(&bits, p + 2 * i, 2);
      r.lane[i] = numeric::bf16_to_float(bits);
    }
    return r;
  }
  // Every other one of 32 codes, one a byte: 2^-8 times its value; a NaN code gives 480 / 256.
  static Vec load_e4m3_even(const std::byte* p) {
    Vec r;
    for (int i = 0; i < 16; ++i) {
      const auto code = static_cast<uint8_t>(p[2 * i]);
      const float sign = code < 128 ? 1.0F : -1.0F;
      const bool nan = (code & 0x7F) == 0x7F;
      r.lane[i] = (nan ? sign * 480.0F : numeric::e4m3_to_float(code)) / 256.0F;
    }
    return r;
  }
  static Vec load_e4m3_odd(const std::byte* p) { return load_e4m3_even(p + 1); }
  // 16 codes, one a byte.
  static Vec load_e4m3(const std::byte* p) {
    Vec r;
    for (int i = 0; i < 16; ++i) r.lane[i] = numeric::e4m3_to_float(static_cast<uint8_t>(p[i]));
    return r;
  }
  // 16 codes in 8 bytes, even lane low.
  static Vec load_e2m1(const std::byte* p) {
    Vec r;
    for (int i = 0; i < 8; ++i) {
      const uint8_t byte = static_cast<uint8_t>(p[i]);
      r.lane[2 * i] = numeric::e2m1_to_float(byte & 15);
      r.lane[2 * i + 1] = numeric::e2m1_to_float(byte >> 4);
    }
    return r;
  }
  static Vec load_e8m0(const std::byte* p) {
    Vec r;
    for (int i = 0; i < 16; ++i) r.lane[i] = numeric::e8m0_to_float(static_cast<uint8_t>(p[i]));
    return r;
  }
  void store(float* p, uint32_t n = 16) const { std::memcpy(p, lane, n * sizeof(float)); }
};

template <class F>
inline Vec map(Vec a, Vec b, F f) {
  Vec r;
  for (int i = 0; i < 16; ++i) r.lane[i] = f(a.lane[i], b.lane[i]);
  return r;
}

// In a register from here on: compilers would rather load a value anew for each of its uses.
inline Vec held(const Vec& a) { return a; }
inline Vec operator+(Vec a, Vec b) {
  return map(a, b, [](float x, float y) { return x + y; });
}
inline Vec operator-(Vec a, Vec b) {
  return map(a, b, [](float x, float y) { return x - y; });
}
inline Vec operator*(Vec a, Vec b) {
  return map(a, b, [](float x, float y) { return x * y; });
}
inline Vec operator/(Vec a, Vec b) {
  return map(a, b, [](float x, float y) { return x / y; });
}
// a < b ? a : b, so that a NaN on either side gives b.
inline Vec min(Vec a, Vec b) {
  return map(a, b, [](float x, float y) { return x < y ? x : y; });
}
// a > b ? a : b, so that a NaN on either side gives b.
inline Vec max(Vec a, Vec b) {
  return map(a, b, [](float x, float y) { return x > y ? x : y; });
}
inline Vec sqrt(Vec a) {
  return map(a, a, [](float x, float) { return std::sqrt(x); });
}
inline Vec abs(Vec a) {
  return map(a, a, [](float x, float) { return std::fabs(x); });
}
// a * b + c, rounded once.
inline Vec fma(Vec a, Vec b, Vec c) {
  Vec r;
  for (int i = 0; i < 16; ++i) r.lane[i] = std::fma(a.lane[i], b.lane[i], c.lane[i]);
  return r;
}
// a < b ? yes : no.
inline Vec select_less(Vec a, Vec b, Vec yes, Vec no) {
  Vec r;
  for (int i = 0; i < 16; ++i) r.lane[i] = a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i];
  return r;
}
// a where a is NaN, else b.
inline Vec keep_nan(Vec a, Vec b) {
  return map(a, b, [](float x, float y) { return x != x ? x : y; });
}
// a * 2^n, where n is the integer in the low bits of `shifted` (see exp in generic/math-inl.h).
// Both a and the product must be normal.
inline Vec add_exponent(Vec a, Vec shifted) {
  return map(a, shifted, [](float x, float y) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(x) + (std::bit_cast<uint32_t>(y) << 23));
  });
}
inline float sum(Vec a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.lane[i] += a.lane[i + half];
  }
  return a.lane[0];
}
// out[i] = sum of the i-th vector.
inline void store_sums4(Vec a, Vec b, Vec c, Vec d, float* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}

}  // namespace thimble::kernels::scalar
