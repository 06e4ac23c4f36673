// Rotary position embedding of one position (backbone spec 5.2): pairs of neighbours at the end of
// each vector.
#pragma once

#include <cstdint>

namespace thimble::kernels::internal {

// x: [vectors, dims]; cos, sin: [pairs]. sign 1 rotates forward, -1 backward.
inline void rotate(float* x, uint32_t vectors, uint64_t dims, const float* cos, const float* sin,
                   uint64_t pairs, float sign) {
  float* pair = x + dims - 2 * pairs;
  for (uint32_t v = 0; v < vectors; ++v, pair += dims) {
    for (uint64_t p = 0; p < pairs; ++p) {
      const float a = pair[2 * p];
      const float b = pair[2 * p + 1];
      const float turn = sign * sin[p];
      pair[2 * p] = a * cos[p] - b * turn;
      pair[2 * p + 1] = a * turn + b * cos[p];
    }
  }
}

}  // namespace thimble::kernels::internal
