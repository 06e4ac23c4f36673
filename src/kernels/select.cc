// The selection rules: the largest scores, lower index first among equals. Backbone spec 6.4
// and 6.5.
//
// A cut value is found by three passes over the bits of the scores, most significant first, each
// counting how many fall in which bucket; nothing is sorted or copied.
#include <bit>

#include "base/check.h"
#include "kernels/ops.h"

namespace thimble::kernels {
namespace {

// Ascending with the score, above zero for every number; NaN is 1, below -inf; -0 equals +0.
uint32_t order_of(float score) {
  if (score != score) return 1;
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

constexpr uint32_t kMinusInfinity = 0x007FFFFF;  // order_of(-inf)
constexpr uint32_t kForced = 0xFFFFFFFF;         // above every score

struct Cut {
  uint32_t order;  // everything above is taken,
  uint64_t equal;  // and this many of those equal to it, lowest index first
};

// Where the `take` largest of the keys end. `each` calls its argument with (index, order) for every
// selectable item; their number is at least take, take at least 1.
template <class Each>
Cut find_cut(uint64_t take, const Each& each) {
  constexpr uint32_t kShifts[] = {21, 10, 0};
  constexpr uint32_t kBits[] = {11, 11, 10};
  uint32_t prefix = 0;
  uint32_t prefix_mask = 0;
  for (int pass = 0; pass < 3; ++pass) {
    uint32_t counts[1u << 11] = {};
    const uint32_t mask = (1u << kBits[pass]) - 1;
    each([&](uint64_t, uint32_t order) {
      if ((order & prefix_mask) == prefix) ++counts[(order >> kShifts[pass]) & mask];
    });
    uint32_t bucket = mask;
    while (counts[bucket] < take) take -= counts[bucket--];
    prefix |= bucket << kShifts[pass];
    prefix_mask |= mask << kShifts[pass];
  }
  return {prefix, take};
}

// Calls emit(index) for the `take` largest, ascending.
template <class Each, class Emit>
void take_largest(uint64_t take, const Each& each, Emit emit) {
  if (take == 0) return;
  Cut cut = find_cut(take, each);
  each([&](uint64_t index, uint32_t order) {
    if (order < cut.order) return;
    if (order == cut.order) {
      if (cut.equal == 0) return;
      --cut.equal;
    }
    emit(index);
  });
}

template <class Each>
uint64_t count_items(const Each& each) {
  uint64_t count = 0;
  each([&](uint64_t, uint32_t) { ++count; });
  return count;
}

}  // namespace

void select_topk(std::span<const float> scores, const uint8_t* allowed_blocks, uint32_t block_size,
                 uint32_t topk, int32_t* selected) {
  const uint64_t n = scores.size();
  const uint64_t block = allowed_blocks == nullptr ? n : block_size;
  CHECK(n == 0 || block >= 1);
  const auto each = [&](auto&& visit) {
    for (uint64_t begin = 0, b = 0; begin < n; begin += block, ++b) {
      if (allowed_blocks != nullptr && allowed_blocks[b] == 0) continue;
      const uint64_t end = n - begin < block ? n : begin + block;
      for (uint64_t i = begin; i < end; ++i) visit(i, order_of(scores[i]));
    }
  };
  const uint64_t items = count_items(each);
  uint32_t filled = 0;
  take_largest(items < topk ? items : topk, each,
               [&](uint64_t i) { selected[filled++] = static_cast<int32_t>(i); });
  while (filled < topk) selected[filled++] = -1;
}

void select_blocks(std::span<const float> scores, uint32_t block_size, uint32_t keep,
                   uint8_t* blocks) {
  CHECK_GE(block_size, 1u);
  CHECK_GE(keep, 1u);
  const uint64_t n = scores.size();
  const uint64_t count = (n + block_size - 1) / block_size;
  const auto each = [&](auto&& visit) {
    for (uint64_t b = 0; b < count; ++b) {
      uint32_t best = 0;
      const uint64_t end = b + 1 < count ? (b + 1) * block_size : n;
      for (uint64_t i = b * block_size; i < end; ++i) {
        const uint32_t order = order_of(scores[i]);
        best = best > order ? best : order;
      }
      if (b + 1 == count) best = kForced;
      if (best > kMinusInfinity) visit(b, best);
    }
  };
  for (uint64_t b = 0; b < count; ++b) blocks[b] = 0;
  const uint64_t items = count_items(each);
  take_largest(items < keep ? items : keep, each, [&](uint64_t b) { blocks[b] = 1; });
}

}  // namespace thimble::kernels
