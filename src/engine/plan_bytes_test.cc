// Aim: the bytes that the planner states are those that the cache takes, exactly. Method: plans of
// the released geometry and of a small model, real caches made by them, filled to the planned
// context.
#include <gtest/gtest.h>

#include "cache/paged_cache.h"
#include "engine/forced_run.h"
#include "engine/model_files.h"
#include "engine/testing.h"
#include "model/forward.h"
#include "planner/ledger.h"
#include "planner/placement.h"
#include "planner/startup_plan.h"

namespace thimble::engine {
namespace {

TEST(PlanBytes, TheCacheTakesWhatWasPlanned) {
  const arch::Config& config = arch::released_config();
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  const auto made = planner::plan_startup(config, layout, 1ULL << 39, {.context_tokens = 3000},
                                          {1ULL << 30, "MemAvailable"});
  ASSERT_TRUE(made.has_value());
  auto cache = cache::PagedCache::create(config, layout, {.pool_bytes = made->pool_bytes});
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ((*cache)->counters().blocks_total * layout.block_bytes, made->pool_bytes);
  auto sequence = (*cache)->open_empty({}, made->context_tokens);
  ASSERT_TRUE(sequence.has_value());
  ASSERT_TRUE((*sequence)->reserve(made->context_tokens).has_value());
  const uint64_t state = 12'288 + 12;  // held by model::SequenceState
  EXPECT_EQ((*sequence)->reserved_bytes() + (*sequence)->window_bytes() + state,
            made->sequence_bytes);
}

// A running engine against its own plan and the ledger, to the byte.
TEST(PlanBytes, AnEngineTakesWhatItPlanned) {
  EngineOptions options = options_for(nano_model());
  options.kv_bytes = 1'000'000;
  const auto told = Engine::plan_of(options);
  const auto engine = open_engine(options);
  const planner::StartupPlan& plan = engine->plan();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->pool_bytes, plan.pool_bytes);
  EXPECT_EQ(told->packing.bytes(), plan.packing.bytes());
  EXPECT_EQ(told->context_tokens, plan.context_tokens);
  const planner::Ledger ledger = planner::make_ledger(engine->config(), arch::CacheFormat::kPacked);
  // Two prompts: each leaves one snapshot, at its end.
  const std::vector<uint64_t> lengths = {200, 333};
  for (const uint64_t length : lengths) {
    auto sink = std::make_shared<Collector>();
    ASSERT_TRUE(engine->submit(request_of(length, 1), sink).has_value());
    ASSERT_FALSE(sink->wait().error.has_value());
  }
  const CacheUse use = engine->counters().cache;
  EXPECT_EQ(use.blocks_total * use.block_bytes, plan.pool_bytes);
  EXPECT_EQ(use.block_bytes, plan.block_bytes);
  EXPECT_EQ(use.ring_bytes, ledger.window_bytes + ledger.window_slack_bytes);
  ASSERT_EQ(use.snapshots, lengths.size());
  uint64_t ids = 0;  // of the tokens that no full block holds
  for (const uint64_t length : lengths) ids += length % arch::kBlockTokens * sizeof(int32_t);
  EXPECT_EQ(use.snapshot_bytes, lengths.size() * ledger.snapshot_bytes + ids);
  EXPECT_EQ(plan.weights_bytes, ledger.checkpoint_bytes);
}

TEST(PlanBytes, ConstantsOfTheKernels) { EXPECT_EQ(planner::kScoreFloats, kernels::kScoreFloats); }

// What the model adds to a snapshot is as long as the layout says.
TEST(PlanBytes, AStateTakesWhatTheLayoutSays) {
  const auto checkpoint = arch::Checkpoint::open(nano_model());
  ASSERT_TRUE(checkpoint.has_value());
  const auto tokenizer = open_tokenizer(*checkpoint);
  const auto map = engram_map(*checkpoint, *tokenizer);
  ASSERT_TRUE(map.has_value());
  model::ModelOptions options;
  options.token_map = *map;
  const auto model = model::Model::create(*checkpoint, options);
  ASSERT_TRUE(model.has_value());
  base::ThreadPool pool(1);
  auto sequence = ForcedSequence::create(**model, 64, pool);
  ASSERT_TRUE(sequence.has_value());
  ASSERT_TRUE(sequence->run(random_ids(33, 1), {}, {}).has_value());
  const auto layout = arch::make_cache_layout((*model)->config(), arch::CacheFormat::kPacked);
  const arch::SequenceBytes bytes = arch::sequence_bytes((*model)->config(), layout);
  EXPECT_EQ(model::to_bytes(sequence->state()).size(), bytes.snapshot_state);
}

}  // namespace
}  // namespace thimble::engine
