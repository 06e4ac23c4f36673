// Q4n: 16 E2M1 codes share one E4M3 scale. Compressed main KV entries.
//
// Backbone spec 3.2: amax = max(|x|, 6 * 2^-9), scale = E4M3(F(amax / 6)), code = E2M1(F(x /
// scale)). The scale may round down; then the largest element saturates at 6. Magnitudes beyond 6 *
// 448, infinity included, saturate there. A NaN among the inputs gives the group the scale NaN
// (every code 7), so that it cannot go unnoticed.
//
// T is float or double; amax and the scale are float32 steps for both.
#pragma once

#include <cstdint>

namespace thimble::numeric {

inline constexpr uint32_t kKvFp4Group = 16;

// Returns the scale byte (E4M3). x, codes: [16], one code a byte.
template <class T>
uint8_t quantize_kv_fp4_group(const T* x, uint8_t* codes);

// Replaces x [n] by what its codes decode to. REQUIRES: n is a multiple of 16.
template <class T>
void round_kv_fp4(T* x, uint64_t n);

}  // namespace thimble::numeric
