// The 16-lane vector as two 8-lane halves: AVX2, FMA and F16C.
//
// Semantics: simd_scalar.h. Everything is inlined into callers that share this target.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/isa/tiles.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

namespace thimble::kernels::THIMBLE_AVX2 {

struct Vec {
  using Tiles = TilesAvx2;

  __m256 lo;
  __m256 hi;

  [[gnu::always_inline]] static inline Vec zero() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
  }
  [[gnu::always_inline]] static inline Vec set(float value) {
    return {_mm256_set1_ps(value), _mm256_set1_ps(value)};
  }
  [[gnu::always_inline]] static inline Vec load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  [[gnu::always_inline]] static inline Vec load(const float* p, uint32_t n) {
    if (n == 16) return load(p);
    alignas(32) float part[16] = {};
    std::memcpy(part, p, n * sizeof(float));
    return {_mm256_load_ps(part), _mm256_load_ps(part + 8)};
  }
  [[gnu::always_inline]] static inline Vec load_f32(const std::byte* p, uint32_t n = 16) {
    alignas(32) float part[16] = {};
    std::memcpy(part, p, n * sizeof(float));
    return {_mm256_load_ps(part), _mm256_load_ps(part + 8)};
  }
  [[gnu::always_inline]] static inline __m256 widen_bf16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  [[gnu::always_inline]] static inline Vec load_bf16(const std::byte* p) {
    const __m128i* q = reinterpret_cast<const __m128i*>(p);
    return {widen_bf16(_mm_loadu_si128(q)), widen_bf16(_mm_loadu_si128(q + 1))};
  }
  [[gnu::always_inline]] static inline Vec load_bf16(const std::byte* p, uint32_t n) {
    if (n == 16) return load_bf16(p);
    std::byte part[32] = {};
    std::memcpy(part, p, 2 * n);
    return load_bf16(part);
  }
  [[gnu::always_inline]] static inline Vec widen_half(__m256i half) {
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }
  // In the upper byte of a word and shifted back by one, its sign with it, a code is a half float
  // 2^8 too small: exponent bias 15 against 7.
  [[gnu::always_inline]] static inline Vec widen_upper(__m256i words) {
    return widen_half(_mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16(-0x4080)));
  }
  [[gnu::always_inline]] static inline Vec load_e4m3_even(const std::byte* p) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return widen_upper(_mm256_slli_epi16(words, 8));
  }
  [[gnu::always_inline]] static inline Vec load_e4m3_odd(const std::byte* p) {
    return widen_upper(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  [[gnu::always_inline]] static inline Vec load_e4m3(const std::byte* p) {
    // Sign-extended and shifted, a code is a half float 2^8 too small: exponent bias 15 against 7.
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(-0x4001));
    const __m256i all_ones = _mm256_set1_epi16(0x3F80);
    const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(half, all_ones), all_ones);
    const __m256i fixed = _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7E00)));
    const __m256 scale = _mm256_set1_ps(256.0f);
    return {_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(fixed)), scale),
            _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(fixed, 1)), scale)};
  }
  [[gnu::always_inline]] static inline Vec load_e2m1(const std::byte* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m128i low = _mm_set1_epi8(15);
    const __m128i codes =
        _mm_unpacklo_epi8(_mm_and_si128(bytes, low), _mm_and_si128(_mm_srli_epi16(bytes, 4), low));
    // Both bytes of the BF16 value of each code.
    const __m128i upper_bytes = _mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -0x80,
                                              -0x41, -0x41, -0x41, -0x40, -0x40, -0x40, -0x40);
    const __m128i lower_bytes = _mm_setr_epi8(0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40, 0, 0,
                                              -0x80, -0x40, 0, 0x40, -0x80, -0x40);
    const __m128i upper = _mm_shuffle_epi8(upper_bytes, codes);
    const __m128i lower = _mm_shuffle_epi8(lower_bytes, codes);
    return {widen_bf16(_mm_unpacklo_epi8(lower, upper)),
            widen_bf16(_mm_unpackhi_epi8(lower, upper))};
  }
  [[gnu::always_inline]] static inline __m256 widen_e8m0(__m128i bytes) {
    const __m256i byte = _mm256_cvtepu8_epi32(bytes);
    const __m256i zero = _mm256_cmpeq_epi32(byte, _mm256_setzero_si256());
    const __m256i nan = _mm256_cmpeq_epi32(byte, _mm256_set1_epi32(255));
    const __m256i fix = _mm256_or_si256(_mm256_and_si256(zero, _mm256_set1_epi32(0x00400000)),
                                        _mm256_and_si256(nan, _mm256_set1_epi32(0x00400000)));
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_slli_epi32(byte, 23), fix));
  }
  [[gnu::always_inline]] static inline Vec load_e8m0(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {widen_e8m0(bytes), widen_e8m0(_mm_srli_si128(bytes, 8))};
  }
  [[gnu::always_inline]] inline void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  [[gnu::always_inline]] inline void store(float* p, uint32_t n) const {
    if (n == 16) return store(p);
    alignas(32) float part[16];
    _mm256_store_ps(part, lo);
    _mm256_store_ps(part + 8, hi);
    std::memcpy(p, part, n * sizeof(float));
  }
};

[[gnu::always_inline]] inline Vec held(Vec a) {
  __asm__("" : "+x"(a.lo), "+x"(a.hi));
  return a;
}
[[gnu::always_inline]] inline Vec operator+(Vec a, Vec b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline Vec operator-(Vec a, Vec b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline Vec operator*(Vec a, Vec b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline Vec operator/(Vec a, Vec b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline Vec min(Vec a, Vec b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline Vec max(Vec a, Vec b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline Vec sqrt(Vec a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
[[gnu::always_inline]] inline Vec abs(Vec a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
[[gnu::always_inline]] inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
[[gnu::always_inline]] inline Vec select_less(Vec a, Vec b, Vec yes, Vec no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
[[gnu::always_inline]] inline Vec keep_nan(Vec a, Vec b) {
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q)),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q))};
}
[[gnu::always_inline]] inline __m256 add_exponent(__m256 a, __m256 shifted) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a),
                                              _mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
}
[[gnu::always_inline]] inline Vec add_exponent(Vec a, Vec shifted) {
  return {add_exponent(a.lo, shifted.lo), add_exponent(a.hi, shifted.hi)};
}
[[gnu::always_inline]] inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
[[gnu::always_inline]] inline void store_sums4(Vec a, Vec b, Vec c, Vec d, float* out) {
  const __m256 a8 = _mm256_add_ps(a.lo, a.hi);
  const __m256 b8 = _mm256_add_ps(b.lo, b.hi);
  const __m256 c8 = _mm256_add_ps(c.lo, c.hi);
  const __m256 d8 = _mm256_add_ps(d.lo, d.hi);
  // One 128-bit half for a (c), one for b (d): four lanes of each.
  const __m256 ab =
      _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20), _mm256_permute2f128_ps(a8, b8, 0x31));
  const __m256 cd =
      _mm256_add_ps(_mm256_permute2f128_ps(c8, d8, 0x20), _mm256_permute2f128_ps(c8, d8, 0x31));
  const __m256 two =
      _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
  const __m256 one = _mm256_add_ps(two, _mm256_movehdup_ps(two));  // a . c . | b . d .
  const __m128 ac = _mm256_castps256_ps128(one);
  const __m128 bd = _mm256_extractf128_ps(one, 1);
  _mm_storeu_ps(out, _mm_unpacklo_ps(_mm_shuffle_ps(ac, ac, 0x88), _mm_shuffle_ps(bd, bd, 0x88)));
}

}  // namespace thimble::kernels::THIMBLE_AVX2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
