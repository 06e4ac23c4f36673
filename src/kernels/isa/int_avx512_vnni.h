// Integer dots of packed FP4 codes: AVX-512 VNNI, four products a lane and step.
//
// Semantics: int_scalar.h. Everything is inlined into callers that share this target.
#pragma once

#if defined(__x86_64__)

#include "kernels/isa/int_avx512.h"

#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#endif

namespace thimble::kernels::avx512 {

struct IntVnni : IntCodes {
  static constexpr const char* kName = "avx512vnni";
  static constexpr uint32_t kRows = Vec::Tiles::kIntRows;

  template <uint32_t kHalf>
  struct HeldCodes {
    __m512i piece[8];
    [[gnu::always_inline]] inline explicit HeldCodes(const std::byte* expanded) {
      hold(expanded, piece);
    }
    [[gnu::always_inline]] inline void add_dot(const int8_t* x, int32_t start, float x_scale,
                                               const Vec& scale, float* lanes) const {
      __m512i even = _mm512_set1_epi32(start);
      __m512i odd = _mm512_setzero_si512();
#pragma GCC unroll 4
      for (uint32_t p = 0; p < 8; p += 2) {
        even = _mm512_dpbusd_epi32(even, piece[p], broadcast(x + p * 4));
        odd = _mm512_dpbusd_epi32(odd, piece[p + 1], broadcast(x + p * 4 + 4));
      }
      add_scaled(_mm512_add_epi32(even, odd), x_scale, scale, lanes);
    }
  };

  template <uint32_t kCount, class Codes>
  [[gnu::always_inline]] static inline void dot(const Codes& codes,
                                                const int8_t* const (&x)[kCount],
                                                Acc (&acc)[kCount]) {
#pragma GCC unroll 4
    for (uint32_t p = 0; p < 4; ++p) {
      const Pair pair = codes.pair(p);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kCount; ++r) {
        acc[r].v = _mm512_dpbusd_epi32(acc[r].v, pair.even, broadcast(x[r] + p * 8));
      }
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kCount; ++r) {
        acc[r].v = _mm512_dpbusd_epi32(acc[r].v, pair.odd, broadcast(x[r] + p * 8 + 4));
      }
    }
  }
};

}  // namespace thimble::kernels::avx512

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
