// Integer dots of packed FP4 codes: AVX-512 BW, sums of 16 bits as in int_avx2.h.
//
// Semantics: int_scalar.h. Everything is inlined into callers that share this target.
#pragma once

#if defined(__x86_64__)

#include "kernels/isa/simd_avx512.h"

#if defined(__clang__)
#pragma clang attribute push(                                                    \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif

namespace thimble::kernels::avx512 {

// What both have: codes and lanes.
struct IntCodes {
  struct Pair {
    __m512i even;  // piece 2p
    __m512i odd;   // piece 2p + 1
  };
  [[gnu::always_inline]] static inline __m512i table() {
    return _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  }
  struct PackedCodes {
    const std::byte* at;
    [[gnu::always_inline]] inline Pair pair(uint32_t p) const {
      const __m512i codes = _mm512_loadu_si512(at + p * 64);
      const __m512i low = _mm512_set1_epi8(15);
      return {_mm512_shuffle_epi8(table(), _mm512_and_si512(codes, low)),
              _mm512_shuffle_epi8(table(), _mm512_and_si512(_mm512_srli_epi16(codes, 4), low))};
    }
  };
  struct ExpandedCodes {
    const std::byte* at;
    [[gnu::always_inline]] inline Pair pair(uint32_t p) const {
      return {_mm512_loadu_si512(at + p * 128), _mm512_loadu_si512(at + p * 128 + 64)};
    }
  };
  struct Acc {
    __m512i v;
  };
  [[gnu::always_inline]] static inline Acc set(int32_t value) { return {_mm512_set1_epi32(value)}; }
  [[gnu::always_inline]] static inline Vec to_float(const Acc& acc) {
    return {_mm512_cvtepi32_ps(acc.v)};
  }
  [[gnu::always_inline]] static inline void expand(const std::byte* packed, std::byte* out) {
    const PackedCodes codes{packed};
    for (uint32_t p = 0; p < 4; ++p) {
      const Pair pair = codes.pair(p);
      _mm512_storeu_si512(out + p * 128, pair.even);
      _mm512_storeu_si512(out + p * 128 + 64, pair.odd);
    }
  }
  // Four dimensions of an MXFP4 tile: 32 bytes, of which a 16-byte lane takes those of its four
  // entries.
  [[gnu::always_inline]] static inline __m512i tile_piece(const std::byte* at) {
    const __m512i from = _mm512_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6, 1, 3, 5, 7, 1, 3, 5, 7);
    const __m512i order =  // bytes 0 and 1 of each dword for even lanes, 2 and 3 for odd ones
        _mm512_setr_epi32(0x0c080400, 0x0c080400, 0x0d090501, 0x0d090501,  //
                          0x0e0a0602, 0x0e0a0602, 0x0f0b0703, 0x0f0b0703,  //
                          0x0c080400, 0x0c080400, 0x0d090501, 0x0d090501,  //
                          0x0e0a0602, 0x0e0a0602, 0x0f0b0703, 0x0f0b0703);
    const __m512i nibble = _mm512_set4_epi32(4, 0, 4, 0);
    const __m512i bytes =
        _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(at)));
    const __m512i both = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(from, bytes), order);
    const __m512i codes = _mm512_and_si512(_mm512_srlv_epi32(both, nibble), _mm512_set1_epi8(15));
    return _mm512_shuffle_epi8(table(), codes);
  }
  static void expand_tile(const std::byte* tile, uint32_t dims, std::byte* out) {
    for (uint32_t d = 0; d < dims; d += 4, tile += 32, out += 64) {
      _mm512_storeu_si512(out, tile_piece(tile));
    }
  }
  [[gnu::always_inline]] static inline __m512i broadcast(const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, sizeof(four));
    return _mm512_set1_epi32(four);
  }
  static constexpr uint32_t kHalves = 1;
  [[gnu::always_inline]] static inline void hold(const std::byte* expanded, __m512i (&piece)[8]) {
#pragma GCC unroll 8
    for (uint32_t p = 0; p < 8; ++p) {
      piece[p] = _mm512_loadu_si512(expanded + p * 64);
      __asm__("" : "+v"(piece[p]));
    }
  }
  [[gnu::always_inline]] static inline void add_scaled(__m512i dot, float x_scale, const Vec& scale,
                                                       float* lanes) {
    fma(Vec{_mm512_cvtepi32_ps(dot)} * Vec::set(x_scale), scale, Vec::load(lanes)).store(lanes);
  }
};

struct Int : IntCodes {
  static constexpr const char* kName = "avx512";
  static constexpr uint32_t kRows = Vec::Tiles::kIntRows;

  template <uint32_t kHalf>
  struct HeldCodes {
    __m512i piece[8];
    [[gnu::always_inline]] inline explicit HeldCodes(const std::byte* expanded) {
      hold(expanded, piece);
    }
    [[gnu::always_inline]] inline __m512i pair(uint32_t p, const int8_t* x) const {
      return _mm512_add_epi16(_mm512_maddubs_epi16(piece[p], broadcast(x + p * 4)),
                              _mm512_maddubs_epi16(piece[p + 1], broadcast(x + p * 4 + 4)));
    }
    [[gnu::always_inline]] inline void add_dot(const int8_t* x, int32_t start, float x_scale,
                                               const Vec& scale, float* lanes) const {
      const __m512i sum = _mm512_add_epi16(_mm512_add_epi16(pair(0, x), pair(2, x)),
                                           _mm512_add_epi16(pair(4, x), pair(6, x)));
      add_scaled(
          _mm512_add_epi32(_mm512_madd_epi16(sum, _mm512_set1_epi16(1)), _mm512_set1_epi32(start)),
          x_scale, scale, lanes);
    }
  };

  template <uint32_t kCount, class Codes>
  [[gnu::always_inline]] static inline void dot(const Codes& codes,
                                                const int8_t* const (&x)[kCount],
                                                Acc (&acc)[kCount]) {
    const __m512i ones = _mm512_set1_epi16(1);
#pragma GCC unroll 2
    for (uint32_t p = 0; p < 4; p += 2) {
      const Pair a = codes.pair(p);
      const Pair b = codes.pair(p + 1);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kCount; ++r) {
        const int8_t* at = x[r] + p * 8;
        const __m512i first = _mm512_add_epi16(_mm512_maddubs_epi16(a.even, broadcast(at)),
                                               _mm512_maddubs_epi16(a.odd, broadcast(at + 4)));
        const __m512i second = _mm512_add_epi16(_mm512_maddubs_epi16(b.even, broadcast(at + 8)),
                                                _mm512_maddubs_epi16(b.odd, broadcast(at + 12)));
        acc[r].v =
            _mm512_add_epi32(acc[r].v, _mm512_madd_epi16(_mm512_add_epi16(first, second), ones));
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
