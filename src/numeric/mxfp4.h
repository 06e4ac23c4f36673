// Q4x (MXFP4): 32 E2M1 codes share one E8M0 scale. Index queries and keys.
//
// Backbone spec 3.2: amax = max(|x|, 6 * 2^-126), scale = P(F(amax * F(1/6))), code = E2M1(F(x /
// scale)). The scale never clips. A NaN among the inputs gives the group the scale NaN (every code
// 7), so that it cannot go unnoticed; an infinity gives scale 2^127 and decodes as infinity.
//
// T is float or double; amax and the scale are float32 steps for both.
#pragma once

#include <cstdint>

namespace thimble::numeric {

inline constexpr uint32_t kMxfp4Group = 32;

// Returns the scale byte. x, codes: [32], one code a byte.
template <class T>
uint8_t quantize_mxfp4_group(const T* x, uint8_t* codes);

// Replaces x [n] by what its codes decode to. REQUIRES: n is a multiple of 32.
template <class T>
void round_mxfp4(T* x, uint64_t n);

}  // namespace thimble::numeric
