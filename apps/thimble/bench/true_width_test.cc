// Aim: times of a few layers add up to those of a whole model, each layer once. Method: plans by
// hand.
#include "apps/thimble/bench/true_width.h"

#include <gtest/gtest.h>

namespace thimble::app {
namespace {

using arch::AttentionMode;

arch::LayerRole role(AttentionMode mode, uint32_t ratio) {
  arch::LayerRole out;
  out.mode = mode;
  out.ratio = ratio;
  return out;
}

TEST(TrueWidth, EveryLayerOfTheWholeIsCounted) {
  const arch::LayerRole window = role(AttentionMode::kWindow, 0);
  const arch::LayerRole full = role(AttentionMode::kFull, 2);
  const arch::LayerRole shorter = role(AttentionMode::kFull, 1);
  const arch::LayerRole reuse = role(AttentionMode::kReuse, 2);
  arch::LayerPlan whole, part;
  whole.layers = {window, full, reuse, reuse, shorter, window};
  part.layers = {window, window, full, shorter, reuse};
  // The first of those that do the same counts.
  const double us[] = {1, 1000, 10, 20, 300};
  EXPECT_EQ(whole_us(whole, part, us), 1 + 10 + 300 + 300 + 20 + 1);
}

}  // namespace
}  // namespace thimble::app
