// Aim: the released model's roles, and the rules of visibility at their edges. Method: the table of
// backbone spec section 1.2 and the examples of its section 10.4.
#include "arch/layer_plan.h"

#include <gtest/gtest.h>

#include "tests/golden/golden.h"

namespace thimble::arch {
namespace {

TEST(LayerPlan, ReleasedRoles) {
  const LayerPlan plan = make_layer_plan(released_config());
  ASSERT_EQ(plan.layers.size(), 40u);
  ASSERT_EQ(plan.owners.size(), 4u);
  EXPECT_EQ(plan.owners[3].layer, 20u);
  EXPECT_EQ(plan.owners[3].ratio, 1u);
  const uint32_t kv[] = {2, 8, 14, 20};
  for (const LayerRole& role : plan.layers) {
    const uint32_t l = role.layer;
    const bool full = l == 2 || l == 8 || l == 14 || l == 20;
    const bool reindex = l == 24 || l == 28 || l == 32 || l == 36;
    const AttentionMode mode = l < 2     ? AttentionMode::kWindow
                               : full    ? AttentionMode::kFull
                               : reindex ? AttentionMode::kReindex
                                         : AttentionMode::kReuse;
    EXPECT_EQ(role.mode, mode) << l;
    EXPECT_EQ(role.selects(), full || reindex) << l;
    EXPECT_EQ(role.ratio, l < 2 ? 0u : l < 20 ? 2u : 1u) << l;
    EXPECT_EQ(role.compressed_rope, l >= 2) << l;
    EXPECT_EQ(role.makes_candidates, l == 20) << l;
    EXPECT_EQ(role.uses_candidates, reindex) << l;
    EXPECT_EQ(role.engram.has_value(), l == 1 || l == 14) << l;
    if (l < 2) {
      EXPECT_FALSE(role.owner || role.kv_source || role.index_source);
    } else {
      EXPECT_EQ(role.kv_source, kv[*role.owner]);
      EXPECT_EQ(role.kv_source, l < 8 ? 2u : l < 14 ? 8u : l < 20 ? 14u : 20u);
      EXPECT_EQ(role.index_source, l < 24 ? *role.kv_source : l / 4 * 4) << l;
    }
  }
  EXPECT_EQ(plan.layers[14].engram, 1u);
}

TEST(LayerPlan, TinyModelRoles) {
  const LayerPlan plan = make_layer_plan(*load_config(golden::path("t1_mini/model/config.json")));
  const AttentionMode W = AttentionMode::kWindow, F = AttentionMode::kFull,
                      X = AttentionMode::kReindex, U = AttentionMode::kReuse;
  const AttentionMode expected[] = {W, W, F, U, F, U, F, U, X, U};
  for (size_t l = 0; l < 10; ++l) EXPECT_EQ(plan.layers[l].mode, expected[l]) << l;
  EXPECT_TRUE(plan.layers[8].uses_candidates);
  EXPECT_EQ(plan.layers[9].index_source, 8u);
  EXPECT_EQ(plan.layers[9].kv_source, 6u);
}

// Without a candidate source nothing is restricted; with one, only index sources of its owner are.
TEST(LayerPlan, CandidatesStayWithTheirOwner) {
  Config c = released_config();
  c.candidate_source_layer_id.reset();
  for (const LayerRole& role : make_layer_plan(c).layers) {
    EXPECT_FALSE(role.makes_candidates || role.uses_candidates);
  }
  c.candidate_source_layer_id = 8;
  c.index_source_layer_ids = {2, 8, 10, 14, 16, 20};
  const LayerPlan plan = make_layer_plan(c);
  EXPECT_TRUE(plan.layers[10].uses_candidates);
  EXPECT_FALSE(plan.layers[16].uses_candidates);
}

TEST(LayerPlan, WindowBegins) {
  EXPECT_EQ(first_visible(0, 128), 0u);
  EXPECT_EQ(first_visible(127, 128), 0u);
  EXPECT_EQ(first_visible(128, 128), 1u);
  EXPECT_EQ(first_visible(1'048'575, 128), 1'048'448u);
  EXPECT_EQ(first_visible(7, 1), 7u);
}

TEST(LayerPlan, EntriesBecomeVisibleWithTheirLastToken) {
  const uint64_t at_two[] = {0, 1, 1, 2, 2, 3};
  for (uint64_t p = 0; p < 6; ++p) {
    EXPECT_EQ(visible_entries(p, 2), at_two[p]);
    EXPECT_EQ(visible_entries(p, 1), p + 1);
    EXPECT_EQ(visible_entries(p, 0), 0u);
    EXPECT_EQ(entries_after(p + 1, 2), visible_entries(p, 2));
  }
  EXPECT_EQ(entry_position(5, 2), 10u);
}

}  // namespace
}  // namespace thimble::arch
