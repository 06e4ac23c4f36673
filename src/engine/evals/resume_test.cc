// Aim: the built-in cuts and depths lie where an evaluation should look and nowhere outside of the
// text. Method: the lists themselves, for the released plan and small ones, and every length of a
// text around the edges.
#include "engine/evals/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "arch/presets.h"

namespace thimble::engine {
namespace {

using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

Pairs cuts(uint32_t window, uint64_t tokens, uint64_t continuation) {
  Pairs out;
  for (const ResumeCut& cut : default_cuts(window, tokens, continuation)) {
    out.emplace_back(cut.hit, cut.suffix);
  }
  return out;
}

TEST(DefaultCuts, EdgesOddPlacesAndFarInWithShortAndLongSuffixes) {
  EXPECT_EQ(cuts(128, 1016, 16), (Pairs{{127, 1},
                                        {129, 2},
                                        {128, 1},
                                        {129, 128},
                                        {501, 1},
                                        {501, 64},
                                        {501, 256},
                                        {750, 4},
                                        {750, 250},
                                        {999, 1}}));
}

TEST(DefaultCuts, StayInsideOfEveryText) {
  for (const uint32_t window : {1u, 2u, 8u, 64u, 128u}) {
    for (uint64_t tokens = 0; tokens < 600; ++tokens) {
      const auto made = cuts(window, tokens, 16);
      EXPECT_EQ(made.empty(), tokens < 18) << tokens;
      for (const auto& [hit, suffix] : made) {
        EXPECT_GE(hit, 1u);
        EXPECT_GE(suffix, 1u);
        EXPECT_LE(hit + suffix + 16, tokens) << "window " << window;
      }
    }
  }
}

TEST(DefaultDepths, DoubleTheWindowUntilAllIsExactOrCovered) {
  const arch::LayerPlan released = arch::make_layer_plan(arch::released_config());
  ASSERT_EQ(exact_depth(released), 127u * 40);
  EXPECT_THAT(default_depths(released, 100'000),
              testing::ElementsAre(256, 512, 1024, 2048, 4096, 8192));
  EXPECT_THAT(default_depths(released, 600), testing::ElementsAre(256, 512, 1024));
  EXPECT_THAT(default_depths(released, 129), testing::ElementsAre(256));
  EXPECT_TRUE(default_depths(released, 128).empty());
}

// 256 stands among them wherever prompts are longer and windows shorter: figures compare by it.
TEST(DefaultDepths, TheUsualOneIsThere) {
  arch::LayerPlan plan = arch::make_layer_plan(arch::released_config());
  plan.window = 100;
  EXPECT_THAT(default_depths(plan, 300), testing::ElementsAre(200, 256, 400));
  EXPECT_THAT(default_depths(plan, 256), testing::ElementsAre(200, 400));
  plan.window = 300;
  EXPECT_THAT(default_depths(plan, 500), testing::ElementsAre(600));
  for (uint64_t prompt = 1; prompt < 700; ++prompt) {
    const auto depths = default_depths(plan, prompt);
    EXPECT_TRUE(std::ranges::is_sorted(depths));
    EXPECT_EQ(std::ranges::adjacent_find(depths), depths.end());
    for (const uint64_t depth : depths) EXPECT_GT(depth, plan.window);
  }
}

}  // namespace
}  // namespace thimble::engine
