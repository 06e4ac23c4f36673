#include "kernels/internal/int8_query.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

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

// What the numbers of a score are multiples of, and stay below: powers of two, by their exponents.
class Exponents {
 public:
  // A head's weight and the scale of its codes; false: the weight is no finite number.
  bool add(float weight, float scale) {
    if (!std::isfinite(weight)) return false;
    if (weight == 0 || scale == 0) return true;
    const int of_weight = std::ilogb(weight);
    const int of_scale = std::ilogb(scale);
    // Dots alone may be neither too small nor too large, and with their weights neither.
    least_ = std::min(least_, std::min(0, of_weight) + of_scale);
    most_ = std::max(most_, std::max(0, of_weight + 1) + of_scale);
    return true;
  }
  // The range of keys' scales in which multiples of the least subnormal number stay such and sums
  // of `terms` products are finite. 2^0 is in it, because scores are summed before keys' scales
  // count.
  bool range(uint64_t terms, LevelQuery& q) const {
    constexpr int kBias = 127;  // of E8M0, where 255 is no scale
    const int unit = least_ - 23;
    const int bits = static_cast<int>(std::bit_width(terms)) + 2 * (4 + int{kLevelShift});
    if (unit < -149 || most_ + bits > 127) return false;
    q.low = static_cast<uint8_t>(std::max(0, kBias - 149 - unit));
    q.high = static_cast<uint8_t>(kBias + 127 - most_ - bits);
    return true;
  }

 private:
  int least_ = 0;
  int most_ = 0;
};

// The exponent of the least scale, zeros aside. An all-zero head has any.
int least_exponent(std::span<const float> scales) {
  int least = std::numeric_limits<int>::max();
  for (const float scale : scales) {
    if (scale != 0) least = std::min(least, std::ilogb(scale));
  }
  return least == std::numeric_limits<int>::max() ? 0 : least;
}

// A group's codes, shifted and 128 larger, to where a block of heads has them side by side.
void level_group(const int8_t* codes, int shift, uint8_t* out) {
  for (uint32_t k = 0; k < kGroup; ++k) {
    out[k / 4 * kLevelHeads * 4 + k % 4] = static_cast<uint8_t>(128 + codes[k] * (1 << shift));
  }
}

// One head; false: its scales lie too far apart. out: [dims / 4, 8, 4] from the head's place on.
bool level_head(const int8_t* codes, std::span<const float> scales, int least, uint8_t* out) {
  for (size_t g = 0; g < scales.size(); ++g) {
    const int shift = scales[g] == 0 ? 0 : std::ilogb(scales[g]) - least;
    if (shift > int{kLevelShift}) return false;
    level_group(codes + g * kGroup, shift, out + g * kGroup * kLevelHeads);
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

LevelQuery make_level_query(const Int8Query& q, const float* head_weights, uint32_t heads,
                            uint32_t dims, Workspace& workspace) {
  const uint32_t groups = dims / kGroup;
  if (groups > kLevelGroups) return {};
  const uint64_t padded = (uint64_t{heads} + kLevelHeads - 1) / kLevelHeads * kLevelHeads;
  const std::span<uint8_t> codes = workspace.take<uint8_t>(padded * dims);
  const std::span<float> factors = workspace.take<float>(padded);
  std::ranges::fill(codes, uint8_t{128});
  std::ranges::fill(factors, 0.0F);
  LevelQuery level{codes.data(), factors.data()};
  Exponents exponents;
  for (uint64_t h = 0; h < heads; ++h) {
    const std::span<const float> scales(q.scales + h * groups, groups);
    const int least = least_exponent(scales);
    const float scale = std::ldexp(1.0F, least);
    uint8_t* const to = &codes[h / kLevelHeads * kLevelHeads * dims + h % kLevelHeads * 4];
    if (!level_head(q.codes + h * dims, scales, least, to)) return {};
    if (!exponents.add(head_weights[h], scale)) return {};
    factors[h] = head_weights[h] * scale;
  }
  return exponents.range(uint64_t{heads} * dims, level) ? level : LevelQuery{};
}

}  // namespace thimble::kernels::internal
