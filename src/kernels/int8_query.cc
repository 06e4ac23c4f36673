#include "kernels/internal/int8_query.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace thimble::kernels::internal {
namespace {

constexpr uint32_t kGroup = 32;
constexpr float kSmallest = 0x1p-100F;  // amax below which scales come near the end of float32
constexpr float kLargest = 0x1p100F;

// Codes of one group; false: they are none. half: half the scale of the codes' values.
bool codes_of(const float* q, int8_t* codes, float& half) {
  float amax = 0;
  for (uint32_t k = 0; k < kGroup; ++k) {
    if (!(std::fabs(q[k]) <= kLargest)) return false;
    amax = std::max(amax, std::fabs(q[k]));
  }
  if (amax == 0) {
    half = 0;
    std::fill_n(codes, kGroup, int8_t{0});
    return true;
  }
  if (amax < kSmallest) return false;
  // 8 * half < amax <= 16 * half, where 12 * half is the largest code there is.
  half = std::ldexp(1.0F, std::ilogb(amax) - 3);
  if (amax > 12 * half) half *= 2;
  const float inverse = 1 / half;  // a power of two
  for (uint32_t k = 0; k < kGroup; ++k) {
    const float value = q[k] * inverse;
    const auto code = static_cast<int32_t>(value);
    if (static_cast<float>(code) != value || std::abs(code) > 12) return false;
    codes[k] = static_cast<int8_t>(code);
  }
  return true;
}

}  // namespace

Int8Query make_int8_query(const float* q, uint32_t heads, uint32_t dims, Workspace& workspace) {
  const uint64_t groups = uint64_t{heads} * (dims / kGroup);
  int8_t* const codes = workspace.take<int8_t>(uint64_t{heads} * dims).data();
  float* const scales = workspace.take<float>(groups).data();
  int32_t* const offsets = workspace.take<int32_t>(groups).data();
  for (uint64_t g = 0; g < groups; ++g) {
    int8_t* const own = codes + g * kGroup;
    float half = 0;
    if (!codes_of(q + g * kGroup, own, half)) return {};
    int32_t sum = 0;
    for (uint32_t k = 0; k < kGroup; ++k) sum += own[k];
    scales[g] = half * 0.5F;  // keys are doubled too
    offsets[g] = -12 * sum;
  }
  return {codes, scales, offsets};
}

}  // namespace thimble::kernels::internal
