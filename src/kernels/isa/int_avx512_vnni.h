// Integer dots of packed FP4 codes: AVX-512 VNNI, four products a lane and step.
//
// Semantics: int_scalar.h. Everything is inlined into callers that share this target.
#pragma once

#if defined(__x86_64__)

#include "kernels/internal/table_entries.h"
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

  // Of groups' scales, a 16-byte lane of them each: whether an entry's lie near enough. least: its
  // least.
  [[gnu::always_inline]] static inline bool levels(const std::byte* scales, uint32_t groups,
                                                   const LevelQuery& q, __m128i& least) {
    least = _mm_set1_epi8(-1);
    __m128i most = _mm_setzero_si128();
    for (uint32_t g = 0; g < groups; ++g) {
      const __m128i scale = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(scales + g * 16));
      least = _mm_min_epu8(least, scale);
      most = _mm_max_epu8(most, scale);
    }
    const __m128i far = _mm_subs_epu8(_mm_sub_epi8(most, least), _mm_set1_epi8(kLevelShift));
    const __m128i below = _mm_subs_epu8(_mm_set1_epi8(static_cast<char>(q.low)), least);
    const __m128i above = _mm_subs_epu8(least, _mm_set1_epi8(static_cast<char>(q.high)));
    const __m128i any = _mm_or_si128(far, _mm_or_si128(below, above));
    return _mm_testz_si128(any, any) != 0;
  }
  static bool level_tile(const std::byte* tile, uint32_t dims, const LevelQuery& q, LevelTile out) {
    const std::byte* const scales = tile + uint64_t{dims} * 8;
    __m128i least;
    if (!levels(scales, dims / 32, q, least)) return false;
    std::byte* to = out.codes;
    __m512i sum = _mm512_setzero_si512();
    for (uint32_t g = 0; g < dims / 32; ++g) {
      const __m128i scale = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(scales + g * 16));
      const __m512i shift = _mm512_cvtepu8_epi32(_mm_sub_epi8(scale, least));
      const __m512i twelve = _mm512_sllv_epi32(_mm512_set1_epi8(12), shift);  // below 256: no carry
#pragma GCC unroll 8
      for (uint32_t p = 0; p < 8; ++p, tile += 32, to += 64) {
        const __m512i codes = _mm512_sllv_epi32(tile_piece(tile), shift);
        const __m512i level = _mm512_sub_epi8(codes, twelve);
        _mm512_storeu_si512(to, level);
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(static_cast<char>(128)), level);
      }
    }
    _mm512_storeu_si512(out.start, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
    alignas(16) std::byte bytes[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes), least);
    Vec::load_e8m0(bytes).store(out.scales);
    return true;
  }
  [[gnu::always_inline]] static inline Acc load(const int32_t* from) {
    return {_mm512_loadu_si512(from)};
  }
  using Piece = __m512i;
  [[gnu::always_inline]] static inline Piece load_piece(const std::byte* at) {
    return _mm512_loadu_si512(at);
  }
  template <uint32_t kTiles>
  [[gnu::always_inline]] static inline void add(Acc (&acc)[kTiles], const uint8_t* q,
                                                const Piece (&piece)[kTiles]) {
    int32_t four;
    std::memcpy(&four, q, sizeof(four));
    const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 2
    for (uint32_t t = 0; t < kTiles; ++t) {
      acc[t].v = _mm512_dpbusd_epi32(acc[t].v, x, piece[t]);
      __asm__("" : "+v"(acc[t].v));  // else GCC moves sums from register to register
    }
  }

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
