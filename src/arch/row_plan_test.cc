// Aim: the plan runs every row that something depends on, and not one more. Method: costs known in
// closed form at the released sizes; and for small plans, the dependencies walked row by row from
// the wanted outputs down, against the plan's ranges, for every hit, end and snapshot.
#include "arch/row_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "arch/presets.h"
#include "tests/golden/golden.h"

namespace thimble::arch {
namespace {

LayerPlan released() { return make_layer_plan(released_config()); }

RowPlanInput prompt(uint64_t hit, uint64_t end) {
  RowPlanInput input;
  input.hit = hit;
  input.end = end;
  input.first_output = end - 1;
  return input;
}

TEST(RowPlan, ReleasedCosts) {
  const LayerPlan plan = released();
  EXPECT_EQ(plan.decoder_begin, 20u);
  EXPECT_EQ(decoder_cone(plan), 2541u);
  for (const uint64_t fresh : {100u, 2541u, 2542u, 50'000u}) {
    RowPlanInput input = prompt(100'001, 100'001 + fresh);
    EXPECT_EQ(make_row_plan(plan, input).layer_tokens(),
              20 * std::max<uint64_t>(fresh, 2541) + 48'280);
    input.hit = 100'000;
    input.end = input.hit + fresh;
    input.first_output = input.end - 1;
    EXPECT_EQ(make_row_plan(plan, input).layer_tokens(),
              20 * std::max<uint64_t>(fresh, 2541) + 48'280);
    input.depth.decoder = 128;
    EXPECT_EQ(make_row_plan(plan, input).layer_tokens(),
              24'130 + 2'560 + 20 * std::max<uint64_t>(fresh, 128));
    input.depth.encoder = 128;
    const RowPlan bounded = make_row_plan(plan, input);
    EXPECT_EQ(bounded.layer_tokens(), 20 * (fresh + 128) + 2'560);
    EXPECT_EQ(bounded.replayed_tokens(), 128u);
  }
  EXPECT_EQ(make_row_plan(plan, prompt(0, 100'000)).layer_tokens(), 20 * 100'000 + 24'150u);
}

// What row needs what: full[l][i] runs the whole layer, key[l][i] at least leaves its key.
struct Needs {
  std::vector<std::vector<bool>> full, key;
};

Needs walk(const LayerPlan& plan, const RowPlanInput& input) {
  const size_t layers = plan.layers.size();
  const uint64_t low = input.windows_at.value_or(0);
  Needs needs{std::vector(layers, std::vector<bool>(input.end)),
              std::vector(layers, std::vector<bool>(input.end))};
  for (uint64_t i = std::max(low, input.first_output); i < input.end; ++i) {
    needs.full[layers - 1][i] = true;
  }
  // The next token's windows ask for nothing more: the last row's hold all of their keys but its
  // own.
  for (size_t l = layers; l-- > 0;) {
    for (const Owner& owner : plan.owners) {
      if (owner.layer != l) continue;
      for (uint64_t i = 0; i < input.end; ++i) {
        const uint64_t last = entry_position(i / owner.ratio, owner.ratio) + owner.ratio - 1;
        if (last >= input.hit && i >= low) needs.key[l][i] = true;
      }
    }
    for (uint64_t i = low; i < input.end; ++i) {
      if (!needs.full[l][i]) continue;
      for (uint64_t k = std::max(low, first_visible(i, plan.window)); k <= i; ++k) {
        needs.key[l][k] = true;
      }
    }
    for (uint64_t i = low; i < input.end && l > 0; ++i) {
      if (needs.key[l][i]) needs.full[l - 1][i] = true;
    }
  }
  return needs;
}

// A plan with owners at layers 1 (ratio 2) and 3 (ratio 1) of six layers.
LayerPlan small_plan(uint32_t window) {
  LayerPlan plan;
  plan.window = window;
  plan.layers.resize(6);
  for (uint32_t l = 0; l < 6; ++l) plan.layers[l].layer = l;
  plan.owners = {{1, 2}, {3, 1}};
  plan.decoder_begin = 3;
  return plan;
}

void expect_plan_equals_walk(const LayerPlan& plan, const RowPlanInput& input) {
  const Needs needs = walk(plan, input);
  const RowPlan made = make_row_plan(plan, input);
  for (size_t l = 0; l < plan.layers.size(); ++l) {
    const LayerRows& rows = made.layers[l];
    EXPECT_FALSE(rows.truncated);
    for (uint64_t i = 0; i < input.end; ++i) {
      // A range begins with its first needed row; above the decoder's first layer every row of an
      // owner is needed anyway.
      ASSERT_EQ(i >= rows.rows_begin, needs.full[l][i])
          << "layer " << l << " row " << i << " hit " << input.hit << " end " << input.end;
      ASSERT_EQ(i >= rows.keys_begin, needs.key[l][i] || needs.full[l][i])
          << "keys of layer " << l << " row " << i << " hit " << input.hit << " end " << input.end;
      if (i < rows.rows_begin) continue;
      ASSERT_LE(rows.window_floor, first_visible(i, plan.window));
    }
  }
  EXPECT_EQ(made.begin, made.layers[0].keys_begin);
}

TEST(RowPlan, ExactRunsWhatIsNeededAndNothingElse) {
  for (const uint32_t window : {1u, 2u, 5u}) {
    const LayerPlan plan = small_plan(window);
    for (uint64_t end = 1; end < 40; ++end) {
      for (uint64_t hit = 0; hit < end; ++hit) {
        expect_plan_equals_walk(plan, prompt(hit, end));
        RowPlanInput all = prompt(hit, end);
        all.first_output = hit;
        expect_plan_equals_walk(plan, all);
        for (uint64_t at = hit > 9 ? hit - 9 : 0; at <= hit; at += 3) {
          RowPlanInput resumed = prompt(hit, end);
          resumed.windows_at = at;
          expect_plan_equals_walk(plan, resumed);
        }
      }
    }
  }
}

TEST(RowPlan, BoundedIsTheSameRowsInEachHalf) {
  const LayerPlan plan = small_plan(5);
  RowPlanInput input = prompt(21, 40);
  input.depth = {5, 5};
  const RowPlan made = make_row_plan(plan, input);
  EXPECT_EQ(made.begin, 16u);
  for (size_t l = 0; l < 6; ++l) {
    const uint64_t floor = l < 3 ? 16 : 35;
    EXPECT_EQ(made.layers[l].rows_begin, floor) << l;
    EXPECT_EQ(made.layers[l].window_floor, floor) << l;
    EXPECT_TRUE(made.layers[l].truncated) << l;
    EXPECT_EQ(made.layers[l].keys_begin, l == 3 ? 21 : floor) << l;  // entries of all new tokens
  }
  // Few new tokens: the decoder's rows reach below the hit, never below the replay.
  input = prompt(21, 23);
  input.depth = {5, 5};
  EXPECT_EQ(make_row_plan(plan, input).layers[5].window_floor, 18u);
  // A depth that covers everything is the cold run.
  input.depth = {21, 5};
  const RowPlan whole = make_row_plan(plan, input);
  EXPECT_EQ(whole.begin, 0u);
  EXPECT_EQ(whole.layer_tokens(), make_row_plan(plan, prompt(21, 23)).layer_tokens());
  for (const LayerRows& rows : whole.layers) EXPECT_FALSE(rows.truncated && rows.window_floor > 0);
}

TEST(RowPlan, ASnapshotStandsInForEverythingBelowIt) {
  const LayerPlan plan = released();
  RowPlanInput input = prompt(10'000, 10'100);
  input.windows_at = 10'000;
  const RowPlan made = make_row_plan(plan, input);
  EXPECT_EQ(made.begin, 10'000u);
  EXPECT_EQ(made.replayed_tokens(), 0u);
  EXPECT_EQ(made.layer_tokens(), 39u * 100 + 1);
  EXPECT_EQ(made.layers[39].rows_begin, 10'099u);
}

}  // namespace
}  // namespace thimble::arch
