// Aim: the printed costs are those of the rows that policies run. Method: the released plan, whose
// sums are known in closed form (design: W = 128, 20 encoder and 20 decoder layers).
#include "planner/replay_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/config.h"

namespace thimble::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

arch::LayerPlan released() { return arch::make_layer_plan(arch::released_config()); }

TEST(ReplayCosts, OfTheReleasedModel) {
  const ReplayCosts costs = typical_replay_costs(released(), 1'048'576);
  EXPECT_EQ(costs.hit, 8192u);
  EXPECT_EQ(costs.new_tokens, 256u);
  EXPECT_EQ(costs.exact, 20u * 2541 + 48'280);
  EXPECT_EQ(costs.automatic, 24'130u + 2560 + 20 * 256);
  EXPECT_EQ(costs.bounded, 20u * (256 + 128) + 2560);
  EXPECT_EQ(costs.cold, 20u * 8448 + 24'150);
  EXPECT_LE(costs.snapshot, 40u * 256);
  EXPECT_GE(costs.snapshot, 20u * 256);
}

TEST(ReplayCosts, LongNewTextLosesNothingByBeingExact) {
  const ReplayCosts costs = replay_costs(released(), 8192, 3000);
  EXPECT_EQ(costs.automatic, costs.exact);
}

TEST(ReplayCosts, SmallContextsStillHaveAnExample) {
  EXPECT_EQ(typical_replay_costs(released(), 100).hit, 50u);
  EXPECT_EQ(typical_replay_costs(released(), 100).new_tokens, 50u);
  EXPECT_EQ(typical_replay_costs(released(), 1).hit, 0u);
}

TEST(ReplayCosts, TextHasTimesOnlyOnceMeasured) {
  ReplayCosts costs = typical_replay_costs(released(), 1'048'576);
  EXPECT_THAT(to_text(costs), HasSubstr("auto 31,810"));
  EXPECT_THAT(to_text(costs), Not(HasSubstr(" s)")));
  costs.layer_token_us = 100;
  EXPECT_THAT(to_text(costs), HasSubstr("auto 31,810 (about 3.2 s)"));
  costs.untimed = "no memory";
  EXPECT_THAT(to_text(costs), HasSubstr("not timed: no memory"));
  EXPECT_EQ(to_text(ReplayCosts{}), "");
}

}  // namespace
}  // namespace thimble::planner
