#include "numeric/kv_fp4.h"

#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "numeric/internal/group-inl.h"

namespace thimble::numeric {

template <class T>
uint8_t quantize_kv_fp4_group(const T* x, uint8_t* codes) {
  const float amax = internal::group_amax(x, kKvFp4Group, 6.0f * 0x1p-9f);
  const uint8_t scale = float_to_e4m3(amax / 6.0f);
  const T divisor = static_cast<T>(e4m3_to_float(scale));
  for (uint32_t i = 0; i < kKvFp4Group; ++i) {
    codes[i] = float_to_e2m1(static_cast<float>(x[i] / divisor));
  }
  return scale;
}

template <class T>
void round_kv_fp4(T* x, uint64_t n) {
  internal::round_groups<kKvFp4Group>(x, n, quantize_kv_fp4_group<T>, e4m3_to_float, e2m1_to_float);
}

template uint8_t quantize_kv_fp4_group(const float*, uint8_t*);
template uint8_t quantize_kv_fp4_group(const double*, uint8_t*);
template void round_kv_fp4(float*, uint64_t);
template void round_kv_fp4(double*, uint64_t);

}  // namespace thimble::numeric
