// Integer dots of packed FP4 codes: AVX2, products of bytes summed to 16 bits, four of them before
// they are widened (4 x 2 x 24 x 127 stays within 16 bits).
//
// Semantics: int_scalar.h. Everything is inlined into callers that share this target.
#pragma once

#if defined(__x86_64__)

#include "kernels/isa/simd_avx2.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

namespace thimble::kernels::THIMBLE_AVX2 {

struct Int {
  static constexpr const char* kName = "avx2";
  static constexpr uint32_t kRows = Vec::Tiles::kIntRows;

  struct Acc {
    __m256i lo;
    __m256i hi;
  };
  struct Pair {
    __m256i even;  // piece 2p
    __m256i odd;   // piece 2p + 1
  };
  [[gnu::always_inline]] static inline __m256i table() {
    return _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13, 14,
                            15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  }
  struct PackedCodes {
    const std::byte* at;
    // Outputs 8 * half on, of pieces 2p and 2p + 1.
    [[gnu::always_inline]] inline Pair pair(uint32_t p, uint32_t half) const {
      const __m256i codes =
          _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(at + p * 64 + half * 32));
      const __m256i low = _mm256_set1_epi8(15);
      return {_mm256_shuffle_epi8(table(), _mm256_and_si256(codes, low)),
              _mm256_shuffle_epi8(table(), _mm256_and_si256(_mm256_srli_epi16(codes, 4), low))};
    }
  };
  struct ExpandedCodes {
    const std::byte* at;
    [[gnu::always_inline]] inline Pair pair(uint32_t p, uint32_t half) const {
      const std::byte* from = at + p * 128 + half * 32;
      return {_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from)),
              _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from + 64))};
    }
  };

  [[gnu::always_inline]] static inline Acc set(int32_t value) {
    return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
  }
  [[gnu::always_inline]] static inline Vec to_float(const Acc& acc) {
    return {_mm256_cvtepi32_ps(acc.lo), _mm256_cvtepi32_ps(acc.hi)};
  }
  [[gnu::always_inline]] static inline void expand(const std::byte* packed, std::byte* out) {
    const PackedCodes codes{packed};
    for (uint32_t p = 0; p < 4; ++p) {
      for (uint32_t half = 0; half < 2; ++half) {
        const Pair pair = codes.pair(p, half);
        std::byte* to = out + p * 128 + half * 32;
        _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), pair.even);
        _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to + 64), pair.odd);
      }
    }
  }
  // Four dimensions at a time: 32 bytes, of which a 16-byte lane takes those of its four entries.
  static void expand_tile(const std::byte* tile, uint32_t dims, std::byte* out) {
    const __m256i order = _mm256_setr_epi8(0, 4, 8, 12, 0, 4, 8, 12, 1, 5, 9, 13, 1, 5, 9, 13,  //
                                           2, 6, 10, 14, 2, 6, 10, 14, 3, 7, 11, 15, 3, 7, 11, 15);
    const __m256i nibble = _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4);
    for (uint32_t d = 0; d < dims; d += 4, tile += 32) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(tile));
      for (int half = 0; half < 2; ++half, out += 32) {
        const __m256i from = _mm256_setr_epi32(half, half + 2, half + 4, half + 6,  //
                                               half, half + 2, half + 4, half + 6);
        const __m256i both = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(bytes, from), order);
        const __m256i codes =
            _mm256_and_si256(_mm256_srlv_epi32(both, nibble), _mm256_set1_epi8(15));
        _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(out), _mm256_shuffle_epi8(table(), codes));
      }
    }
  }
  [[gnu::always_inline]] static inline __m256i broadcast(const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, sizeof(four));
    return _mm256_set1_epi32(four);
  }
  static constexpr uint32_t kHalves = 2;
  template <uint32_t kHalf>
  struct HeldCodes {
    __m256i piece[8];
    [[gnu::always_inline]] inline explicit HeldCodes(const std::byte* expanded) {
#pragma GCC unroll 8
      for (uint32_t p = 0; p < 8; ++p) {
        piece[p] =
            _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(expanded + p * 64 + kHalf * 32));
        __asm__("" : "+x"(piece[p]));
      }
    }
    [[gnu::always_inline]] inline __m256i pair(uint32_t p, const int8_t* x) const {
      return _mm256_add_epi16(_mm256_maddubs_epi16(piece[p], broadcast(x + p * 4)),
                              _mm256_maddubs_epi16(piece[p + 1], broadcast(x + p * 4 + 4)));
    }
    // Eight products of FP4 codes stay within 16 bits (8 x 2 x 24 x 12): they are widened once.
    [[gnu::always_inline]] inline void add_dot(const int8_t* x, int32_t start, float x_scale,
                                               const Vec& scale, float* lanes) const {
      const __m256i sum = _mm256_add_epi16(_mm256_add_epi16(pair(0, x), pair(2, x)),
                                           _mm256_add_epi16(pair(4, x), pair(6, x)));
      const __m256i dot =
          _mm256_add_epi32(_mm256_madd_epi16(sum, _mm256_set1_epi16(1)), _mm256_set1_epi32(start));
      float* const own = lanes + kHalf * 8;
      _mm256_storeu_ps(
          own, _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(dot), _mm256_set1_ps(x_scale)),
                               kHalf == 0 ? scale.lo : scale.hi, _mm256_loadu_ps(own)));
    }
  };
  template <uint32_t kCount, class Codes>
  [[gnu::always_inline]] static inline void dot_half(const Codes& codes, uint32_t half,
                                                     const int8_t* const (&x)[kCount],
                                                     __m256i (&acc)[kCount]) {
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 2
    for (uint32_t p = 0; p < 4; p += 2) {
      const Pair a = codes.pair(p, half);
      const Pair b = codes.pair(p + 1, half);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kCount; ++r) {
        const int8_t* at = x[r] + p * 8;
        const __m256i first = _mm256_add_epi16(_mm256_maddubs_epi16(a.even, broadcast(at)),
                                               _mm256_maddubs_epi16(a.odd, broadcast(at + 4)));
        const __m256i second = _mm256_add_epi16(_mm256_maddubs_epi16(b.even, broadcast(at + 8)),
                                                _mm256_maddubs_epi16(b.odd, broadcast(at + 12)));
        acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(_mm256_add_epi16(first, second), ones));
      }
    }
  }
  template <uint32_t kCount, class Codes>
  [[gnu::always_inline]] static inline void dot(const Codes& codes,
                                                const int8_t* const (&x)[kCount],
                                                Acc (&acc)[kCount]) {
    __m256i lo[kCount];
    __m256i hi[kCount];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kCount; ++r) lo[r] = acc[r].lo, hi[r] = acc[r].hi;
    dot_half<kCount>(codes, 0, x, lo);
    dot_half<kCount>(codes, 1, x, hi);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kCount; ++r) acc[r] = {lo[r], hi[r]};
  }
};

}  // namespace thimble::kernels::THIMBLE_AVX2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
