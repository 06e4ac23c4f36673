// Aim: a prompt takes the cheapest way that its policy allows, its windows are marked for what they
// are, and snapshots lie where they were asked for. Method: the released layer plan with made-up
// hits and snapshots; the numbers follow from W = 128, 20 encoder and 20 decoder layers.
#include "engine/internal/prefill.h"

#include <gtest/gtest.h>

#include "arch/presets.h"
#include "tests/golden/golden.h"

namespace thimble::engine {
namespace {

using cache::Marks;
using cache::SnapshotUse;

class PrefillTest : public testing::Test {
 protected:
  Route route(uint64_t hit, std::vector<SnapshotUse> snapshots, uint64_t prompt, Replay replay) {
    uses = std::move(snapshots);
    return choose_route(plan, hit, uses, prompt, replay);
  }
  Prefill prefill(const Route& route, uint64_t prompt, Replay replay,
                  std::vector<uint64_t> points = {}) {
    return {plan, route, prompt, replay, std::move(points), true};
  }
  static SnapshotUse snapshot(uint64_t position, Marks marks = {}) {
    return {.position = position, .snapshot_position = position, .marks = marks, .model = {}};
  }
  // Ends of all segments, and whether a snapshot is taken there.
  static std::vector<std::pair<uint64_t, bool>> ends(Prefill way) {
    std::vector<std::pair<uint64_t, bool>> out;
    while (!way.done()) {
      out.emplace_back(way.rows().end, way.wants_snapshot());
      way.end_segment();
    }
    return out;
  }

  const arch::LayerPlan plan = arch::make_layer_plan(arch::released_config());
  std::vector<SnapshotUse> uses;
};

TEST_F(PrefillTest, ASnapshotAtTheHitBeatsReplay) {
  const Route taken = route(10'000, {snapshot(10'000), snapshot(9'000)}, 10'100, Replay::kAuto);
  EXPECT_EQ(taken.windows_at, 10'000u);
  EXPECT_EQ(taken.snapshot, &uses[0]);
  const Prefill way = prefill(taken, 10'100, Replay::kAuto);
  EXPECT_EQ(way.begin(), 10'000u);
  EXPECT_EQ(way.marks(), Marks{});
}

TEST_F(PrefillTest, ADistantSnapshotLosesToReplay) {
  // 20 layers over 5,000 rows cost more than two cones.
  EXPECT_EQ(route(10'000, {snapshot(5'000)}, 10'100, Replay::kAuto).windows_at, std::nullopt);
  const Route near = route(10'000, {snapshot(9'500)}, 10'100, Replay::kAuto);
  EXPECT_EQ(near.windows_at, 9'500u);
  EXPECT_EQ(near.hit, 10'000u);  // entries beyond the snapshot are adopted all the same
}

TEST_F(PrefillTest, AutoIsExactInTheEncoderAlways) {
  // Short new text after a bare hit: the decoder is bounded, and says so.
  const Prefill brief = prefill(route(10'000, {}, 10'100, Replay::kAuto), 10'100, Replay::kAuto);
  EXPECT_EQ(brief.marks(), (Marks{true, false}));
  EXPECT_EQ(brief.rows().layer_tokens(), 24'130u + 2'560 + 20 * 128);
  // Long enough to hold the cone, or cold: exact.
  const Prefill longer = prefill(route(10'000, {}, 12'541, Replay::kAuto), 12'541, Replay::kAuto);
  EXPECT_EQ(longer.marks(), Marks{});
  EXPECT_EQ(prefill(route(0, {}, 300, Replay::kAuto), 300, Replay::kAuto).marks(), Marks{});
}

// A few tokens that all prompts share, such as BOS, do not make a prompt less exact than a cold
// one.
TEST_F(PrefillTest, AHitThatSavesNothingCostsNothing) {
  for (const uint64_t hit : {1u, 100u, 2'000u}) {
    const Prefill way = prefill(route(hit, {}, hit + 100, Replay::kAuto), hit + 100, Replay::kAuto);
    EXPECT_EQ(way.begin(), 0u);
    EXPECT_EQ(way.marks(), Marks{}) << hit;
  }
}

TEST_F(PrefillTest, ASnapshotWithoutDecoderKeepsLaterOnesAway) {
  const Marks bounded{true, false};
  const Route taken = route(8'000, {snapshot(8'000, bounded)}, 10'600, Replay::kAuto);
  Prefill way = prefill(taken, 10'600, Replay::kAuto, {8'100});
  EXPECT_EQ(way.rows().end, 10'600u);  // no segment ends at 8,100 or 8,192
  EXPECT_EQ(way.marks(), Marks{});
}

TEST_F(PrefillTest, ExactIsExactWhateverItCosts) {
  const Prefill way = prefill(route(10'000, {}, 10'100, Replay::kExact), 10'100, Replay::kExact);
  EXPECT_EQ(way.marks(), Marks{});
  EXPECT_EQ(way.rows().layer_tokens(), 20u * 2541 + 48'280);
}

TEST_F(PrefillTest, BoundedReplaysOneWindow) {
  const Prefill way =
      prefill(route(10'000, {}, 10'100, Replay::kBounded), 10'100, Replay::kBounded);
  EXPECT_EQ(way.begin(), 9'872u);
  EXPECT_EQ(way.marks(), (Marks{false, false}));
  // Where the bound reaches the beginning, nothing is cut off; nor is a cold prompt.
  EXPECT_EQ(prefill(route(0, {}, 9'000, Replay::kBounded), 9'000, Replay::kBounded).marks(),
            Marks{});
  const Prefill whole = prefill(route(100, {}, 120, Replay::kBounded), 120, Replay::kBounded);
  EXPECT_EQ(whole.marks(), Marks{});
}

TEST_F(PrefillTest, MarksFollowASnapshotUntilTheConeIsRebuilt) {
  const Marks bounded{true, false};
  Route taken = route(10'000, {snapshot(10'000, bounded)}, 10'500, Replay::kAuto);
  ASSERT_EQ(taken.windows_at, 10'000u);
  EXPECT_EQ(prefill(taken, 10'500, Replay::kAuto).marks(), bounded);
  taken = route(10'000, {snapshot(10'000, bounded)}, 12'541, Replay::kAuto);
  EXPECT_EQ(prefill(taken, 12'541, Replay::kAuto).marks(), Marks{});
}

TEST_F(PrefillTest, PrivateEntriesEndWithTheirSnapshot) {
  const Route taken =
      route(9'000, {snapshot(9'800, Marks{false, false})}, 10'000, Replay::kBounded);
  EXPECT_EQ(taken.hit, 9'800u);
  EXPECT_FALSE(prefill(taken, 10'000, Replay::kBounded).marks().encoder_exact);
}

TEST_F(PrefillTest, SegmentsEndAtSnapshots) {
  using Ends = std::vector<std::pair<uint64_t, bool>>;
  const Route cold = route(0, {}, 20'000, Replay::kAuto);
  EXPECT_EQ(ends(prefill(cold, 20'000, Replay::kAuto, {500, 19'999, 25'000, 0, 500})),
            (Ends{{500, true}, {8192, true}, {16'384, true}, {19'999, true}, {20'000, false}}));
  const Prefill none(plan, cold, 20'000, Replay::kAuto, {500}, false);
  EXPECT_EQ(ends(none), (Ends{{20'000, false}}));
  // After a bare hit a snapshot too near would cost the decoder its exactness.
  const Route hit = route(1'000, {}, 6'000, Replay::kAuto);
  const Prefill way = prefill(hit, 6'000, Replay::kAuto, {1'500, 3'541, 5'000});
  EXPECT_EQ(ends(way), (Ends{{3'541, true}, {5'000, true}, {6'000, true}}));
  EXPECT_EQ(way.marks(), Marks{});
}

// Every row runs in every layer once, whatever the policy.
TEST_F(PrefillTest, LogitsOfAllTokensNeedAllRows) {
  for (const Replay replay : {Replay::kAuto, Replay::kExact, Replay::kBounded}) {
    Prefill way(plan, route(0, {}, 9'000, replay), 9'000, replay, {500}, true, PromptOutputs::kAll);
    for (uint64_t from = 0; !way.done(); way.end_segment()) {
      EXPECT_EQ(way.rows().begin, from);
      for (const arch::LayerRows& rows : way.rows().layers) EXPECT_EQ(rows.rows_begin, from);
      EXPECT_EQ(way.marks(), Marks{});
      from = way.rows().end;
    }
  }
}

TEST_F(PrefillTest, LaterSegmentsContinueTheWindowsOfTheFirst) {
  Prefill way = prefill(route(0, {}, 20'000, Replay::kAuto), 20'000, Replay::kAuto);
  EXPECT_EQ(way.rows().layers[39].rows_begin, 8'191u);
  way.end_segment();
  EXPECT_EQ(way.rows().begin, 8'192u);
  EXPECT_EQ(way.rows().hit, 8'192u);
  EXPECT_EQ(way.rows().layers[39].rows_begin, 16'383u);
  EXPECT_EQ(way.begin(), 0u);
}

}  // namespace
}  // namespace thimble::engine
