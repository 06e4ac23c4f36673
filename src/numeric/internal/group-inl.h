// What the three block quantisers share: the largest magnitude of a group, and the loop over
// groups.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace thimble::numeric::internal {

// F(max(|x|, floor)) over n values; NaN if any value is NaN.
template <class T>
float group_amax(const T* x, uint32_t n, float floor) {
  T amax = static_cast<T>(floor);
  bool has_nan = false;
  for (uint32_t i = 0; i < n; ++i) {
    const T magnitude = std::fabs(x[i]);
    amax = magnitude > amax ? magnitude : amax;
    has_nan |= std::isnan(magnitude);
  }
  return has_nan ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(amax);
}

// Quantises and decodes x [n] group by group. quantize(group, codes) returns the scale byte.
template <uint32_t kGroup, class T, class Quantize, class Scale, class Decode>
void round_groups(T* x, uint64_t n, Quantize quantize, Scale scale_of, Decode decode) {
  CHECK_EQ(n % kGroup, 0u);
  for (uint64_t begin = 0; begin < n; begin += kGroup) {
    uint8_t codes[kGroup];
    const float scale = scale_of(quantize(x + begin, codes));
    for (uint32_t i = 0; i < kGroup; ++i) x[begin + i] = static_cast<T>(decode(codes[i]) * scale);
  }
}

}  // namespace thimble::numeric::internal
