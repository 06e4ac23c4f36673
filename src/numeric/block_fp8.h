// Q8: 32 E4M3 codes share one E8M0 scale. Activations of FP8 and FP4 linears, window KV rows.
//
// Backbone spec 3.2: amax = max(|x|, 1e-4), scale = P(F(amax * F(1/448))), code = E4M3(F(x /
// scale)). The scale never clips. A NaN among the inputs gives the group the scale NaN (and every
// code NaN), so that it cannot go unnoticed; an infinity gives scale 2^127 and decodes as infinity.
//
// T is float or double; amax and the scale are float32 steps for both.
#pragma once

#include <cstdint>

namespace thimble::numeric {

inline constexpr uint32_t kFp8Group = 32;

// Returns the scale byte. x, codes: [32].
template <class T>
uint8_t quantize_fp8_group(const T* x, uint8_t* codes);

// Replaces x [n] by what its codes decode to. REQUIRES: n is a multiple of 32.
template <class T>
void round_fp8(T* x, uint64_t n);

}  // namespace thimble::numeric
