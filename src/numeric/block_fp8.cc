#include "numeric/block_fp8.h"

#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"
#include "numeric/internal/group-inl.h"

namespace thimble::numeric {

template <class T>
uint8_t quantize_fp8_group(const T* x, uint8_t* codes) {
  const float amax = internal::group_amax(x, kFp8Group, 1e-4f);
  const uint8_t scale = float_to_e8m0_ceil(amax * (1.0f / 448.0f));
  // Multiplying by the inverse of a power of two is the division.
  const T inverse = static_cast<T>(e8m0_inverse(scale));
  for (uint32_t i = 0; i < kFp8Group; ++i) {
    codes[i] = float_to_e4m3(static_cast<float>(x[i] * inverse));
  }
  return scale;
}

template <class T>
void round_fp8(T* x, uint64_t n) {
  internal::round_groups<kFp8Group>(x, n, quantize_fp8_group<T>, e8m0_to_float, e4m3_to_float);
}

template uint8_t quantize_fp8_group(const float*, uint8_t*);
template uint8_t quantize_fp8_group(const double*, uint8_t*);
template void round_fp8(float*, uint64_t);
template void round_fp8(double*, uint64_t);

}  // namespace thimble::numeric
