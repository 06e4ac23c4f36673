#include "numeric/mxfp4.h"

#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/internal/group-inl.h"

namespace thimble::numeric {

template <class T>
uint8_t quantize_mxfp4_group(const T* x, uint8_t* codes) {
  const float amax = internal::group_amax(x, kMxfp4Group, 6.0f * 0x1p-126f);
  const uint8_t scale = float_to_e8m0_ceil(amax * (1.0f / 6.0f));
  // Multiplying by the inverse of a power of two is the division.
  const T inverse = static_cast<T>(e8m0_inverse(scale));
  for (uint32_t i = 0; i < kMxfp4Group; ++i) {
    codes[i] = float_to_e2m1(static_cast<float>(x[i] * inverse));
  }
  return scale;
}

template <class T>
void round_mxfp4(T* x, uint64_t n) {
  internal::round_groups<kMxfp4Group>(x, n, quantize_mxfp4_group<T>, e8m0_to_float, e2m1_to_float);
}

template uint8_t quantize_mxfp4_group(const float*, uint8_t*);
template uint8_t quantize_mxfp4_group(const double*, uint8_t*);
template void round_mxfp4(float*, uint64_t);
template void round_mxfp4(double*, uint64_t);

}  // namespace thimble::numeric
