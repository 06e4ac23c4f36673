// Integer dots of packed FP4 codes: AVX-512 VNNI, four products a lane and step.
//
// Semantics: int_scalar.h. For inclusion within the region of isa/avx512_vnni.cc.
#pragma once

#include "kernels/isa/int_avx512.h"

namespace thimble::kernels::avx512 {

struct IntVnni : IntCodes {
  static constexpr const char* kName = "avx512vnni";
  static constexpr uint32_t kRows = 8;

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
