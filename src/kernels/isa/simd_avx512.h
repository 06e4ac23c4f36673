// The 16-lane vector as one register: AVX-512 F, BW, DQ, VL.
//
// Semantics: simd_scalar.h. Everything is inlined into callers that share this target.
#pragma once

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
// GCC's intrinsics start from undefined registers and it warns about them (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/isa/tiles.h"

#if defined(__clang__)
#pragma clang attribute push(                                                    \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif

namespace thimble::kernels::avx512 {

struct Vec {
  using Tiles = Tiles32;

  __m512 v;

  [[gnu::always_inline]] static inline __mmask16 first(uint32_t n) {
    return static_cast<__mmask16>((1u << n) - 1u);
  }
  [[gnu::always_inline]] static inline Vec zero() { return {_mm512_setzero_ps()}; }
  [[gnu::always_inline]] static inline Vec set(float value) { return {_mm512_set1_ps(value)}; }
  [[gnu::always_inline]] static inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  [[gnu::always_inline]] static inline Vec load(const float* p, uint32_t n) {
    return {_mm512_maskz_loadu_ps(first(n), p)};
  }
  [[gnu::always_inline]] static inline Vec load_f32(const std::byte* p) {
    return {_mm512_loadu_ps(p)};
  }
  [[gnu::always_inline]] static inline Vec load_f32(const std::byte* p, uint32_t n) {
    return {_mm512_maskz_loadu_ps(first(n), p)};
  }
  [[gnu::always_inline]] static inline Vec widen_bf16(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  [[gnu::always_inline]] static inline Vec load_bf16(const std::byte* p) {
    return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p)));
  }
  [[gnu::always_inline]] static inline Vec load_bf16(const std::byte* p, uint32_t n) {
    return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p));
  }
  // In the upper byte of a word and shifted back by one, its sign with it, a code is a half float
  // 2^8 too small: exponent bias 15 against 7.
  [[gnu::always_inline]] static inline Vec widen_upper(__m256i words) {
    const __m256i bits = _mm256_set1_epi16(-0x4080);
    return {_mm512_cvtph_ps(_mm256_and_si256(_mm256_srai_epi16(words, 1), bits))};
  }
  [[gnu::always_inline]] static inline Vec load_e4m3_even(const std::byte* p) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p));
    return widen_upper(_mm256_slli_epi16(words, 8));
  }
  [[gnu::always_inline]] static inline Vec load_e4m3_odd(const std::byte* p) {
    return widen_upper(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p)));
  }
  [[gnu::always_inline]] static inline Vec load_e4m3(const std::byte* p) {
    // Sign-extended and shifted, a code is a half float 2^8 too small: exponent bias 15 against 7.
    const __m256i wide =
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(p)));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(-0x4001));
    const __m256i all_ones = _mm256_set1_epi16(0x3F80);
    const __mmask16 nan = _mm256_cmpeq_epi16_mask(_mm256_and_si256(half, all_ones), all_ones);
    const __m256i fixed = _mm256_mask_mov_epi16(half, nan, _mm256_set1_epi16(0x7E00));
    return {_mm512_mul_ps(_mm512_cvtph_ps(fixed), _mm512_set1_ps(256.0f))};
  }
  [[gnu::always_inline]] static inline Vec load_e2m1(const std::byte* p) {
    // Lane i takes nibble i % 8 of dword i / 8; the permutation looks at four index bits only.
    int64_t bytes;
    std::memcpy(&bytes, p, sizeof(bytes));
    const __m512i dwords =
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                                 _mm512_set1_epi64(bytes));
    const __m512i codes = _mm512_srlv_epi32(
        dwords, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
    const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                         -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    return {_mm512_permutexvar_ps(codes, values)};
  }
  [[gnu::always_inline]] static inline Vec load_e8m0(const std::byte* p) {
    const __m512i byte =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(p)));
    const __mmask16 ends =
        static_cast<__mmask16>(_mm512_cmpeq_epi32_mask(byte, _mm512_setzero_si512()) |
                               _mm512_cmpeq_epi32_mask(byte, _mm512_set1_epi32(255)));
    const __m512i bits = _mm512_slli_epi32(byte, 23);
    return {
        _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, ends, bits, _mm512_set1_epi32(0x00400000)))};
  }
  [[gnu::always_inline]] inline void store(float* p) const { _mm512_storeu_ps(p, v); }
  [[gnu::always_inline]] inline void store(float* p, uint32_t n) const {
    _mm512_mask_storeu_ps(p, first(n), v);
  }
};

[[gnu::always_inline]] inline Vec held(Vec a) {
  __asm__("" : "+v"(a.v));
  return a;
}
[[gnu::always_inline]] inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
[[gnu::always_inline]] inline Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
[[gnu::always_inline]] inline Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
[[gnu::always_inline]] inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
[[gnu::always_inline]] inline Vec select_less(Vec a, Vec b, Vec yes, Vec no) {
  return {_mm512_mask_mov_ps(no.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), yes.v)};
}
[[gnu::always_inline]] inline Vec keep_nan(Vec a, Vec b) {
  return {_mm512_mask_mov_ps(b.v, _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), a.v)};
}
[[gnu::always_inline]] inline Vec add_exponent(Vec a, Vec shifted) {
  return {_mm512_castsi512_ps(_mm512_add_epi32(
      _mm512_castps_si512(a.v), _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23)))};
}
[[gnu::always_inline]] inline __m256 add_halves(Vec a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}
[[gnu::always_inline]] inline float sum(Vec a) {
  const __m256 eight = add_halves(a);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
[[gnu::always_inline]] inline void store_sums4(Vec a, Vec b, Vec c, Vec d, float* out) {
  const __m256 a8 = add_halves(a);
  const __m256 b8 = add_halves(b);
  const __m256 c8 = add_halves(c);
  const __m256 d8 = add_halves(d);
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

}  // namespace thimble::kernels::avx512

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__
