// The selection rules: the largest scores, lower index first among equals. Backbone spec 6.4
// and 6.5.
//
// A cut value is found by three passes over the bits of the scores, most significant first, each
// counting how many fall in which bucket; nothing is sorted or copied. Where the maxima of runs of
// scores are known, only runs that can hold a chosen score are looked at.
#include <algorithm>
#include <bit>
#include <limits>

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

// Runs of `size` scores: calls visit(index, order) for those whose run is `wanted`.
template <class Wanted, class Visit>
void visit_runs(std::span<const float> scores, uint64_t size, const Wanted& wanted, Visit&& visit) {
  for (uint64_t begin = 0, run = 0; begin < scores.size(); begin += size, ++run) {
    if (!wanted(run)) continue;
    const uint64_t end = std::min<uint64_t>(scores.size(), begin + size);
    for (uint64_t i = begin; i < end; ++i) visit(i, order_of(scores[i]));
  }
}

template <class Wanted>
void take_scores(std::span<const float> scores, uint64_t size, const Wanted& wanted, uint64_t items,
                 uint32_t topk, int32_t* selected) {
  uint32_t filled = 0;
  take_largest(
      std::min<uint64_t>(items, topk),
      [&](auto&& visit) { visit_runs(scores, size, wanted, visit); },
      [&](uint64_t i) { selected[filled++] = static_cast<int32_t>(i); });
  std::fill(selected + filled, selected + topk, -1);
}

// The largest order of some scores, many at a time. NaN is passed over.
uint32_t maximum(std::span<const float> scores) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  std::ranges::fill(lanes, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) {
      lanes[k] = scores[i + k] > lanes[k] ? scores[i + k] : lanes[k];
    }
  }
  float best = *std::ranges::max_element(lanes);
  for (; i < scores.size(); ++i) best = scores[i] > best ? scores[i] : best;
  return order_of(best);
}

}  // namespace

void score_maxima(std::span<const float> scores, uint32_t size, uint32_t* maxima) {
  CHECK_GE(size, 1u);
  for (uint64_t begin = 0; begin < scores.size(); begin += size) {
    *maxima++ = maximum(scores.subspan(begin, std::min<uint64_t>(size, scores.size() - begin)));
  }
}

void select_topk(std::span<const float> scores, std::span<const uint32_t> maxima, uint32_t size,
                 uint32_t topk, int32_t* selected) {
  CHECK_GE(size, 1u);
  CHECK_EQ(maxima.size(), (scores.size() + size - 1) / size);
  // As many runs as are to be taken reach the least of their maxima, and so do as many scores.
  uint32_t least = 0;
  if (maxima.size() > topk && topk > 0) {
    least = find_cut(topk, [&](auto&& visit) {
              for (uint64_t run = 0; run < maxima.size(); ++run) visit(run, maxima[run]);
            }).order;
  }
  take_scores(
      scores, size, [&](uint64_t run) { return maxima[run] >= least; }, scores.size(), topk,
      selected);
}

void select_allowed(std::span<const float> scores, const uint8_t* allowed_blocks,
                    uint32_t block_size, uint32_t topk, int32_t* selected) {
  CHECK_GE(block_size, 1u);
  uint64_t items = 0;
  for (uint64_t begin = 0, b = 0; begin < scores.size(); begin += block_size, ++b) {
    if (allowed_blocks[b] != 0) items += std::min<uint64_t>(block_size, scores.size() - begin);
  }
  take_scores(
      scores, block_size, [&](uint64_t b) { return allowed_blocks[b] != 0; }, items, topk,
      selected);
}

void select_blocks(std::span<const uint32_t> maxima, uint32_t keep, uint8_t* blocks) {
  CHECK_GE(keep, 1u);
  const uint64_t count = maxima.size();
  const auto each = [&](auto&& visit) {
    for (uint64_t b = 0; b < count; ++b) {
      const uint32_t best = b + 1 == count ? kForced : maxima[b];
      if (best > kMinusInfinity) visit(b, best);
    }
  };
  std::fill_n(blocks, count, uint8_t{0});
  uint64_t items = 0;
  each([&](uint64_t, uint32_t) { ++items; });
  take_largest(std::min<uint64_t>(items, keep), each, [&](uint64_t b) { blocks[b] = 1; });
}

}  // namespace thimble::kernels
