// Aim: weights are asked for ahead of their use where memory does not hold them, are counted and
// change no bit. Method: plans of made-up amounts of memory; one run with and without, experts
// packed and not. What is asked for is tested below (model/read_ahead_test.cc).
#include <gtest/gtest.h>

#include "engine/forced_run.h"
#include "engine/model_files.h"
#include "engine/testing.h"

namespace thimble::engine {
namespace {

TEST(ReadAheadOfWeights, CountsChosenExpertsAndLookedUpRows) {
  const auto checkpoint = *arch::Checkpoint::open(nano_model());
  const auto map = *engram_map(checkpoint, *open_tokenizer(checkpoint));
  base::ThreadPool pool(2);
  const std::vector<int32_t> ids = {0, 40, 41, 42, 43, 44, 45, 46};
  model::ReadAheadCounts counts;
  const auto run = [&](model::Packing packing, bool read_ahead) {
    model::ModelOptions options;
    options.token_map = map;
    options.packing = packing;
    options.read_ahead = read_ahead;
    const auto model = *model::Model::create(checkpoint, options);
    auto logits = *run_forced(*model, ids, Cuts{}, pool);
    counts = model->read_ahead_counts();
    return logits;
  };
  const auto expected = run(model::Packing::kNone, false);
  EXPECT_EQ(counts.experts.pages, 0u);
  EXPECT_EQ(counts.engram.pages, 0u);
  EXPECT_EQ(run(model::Packing::kNone, true), expected);
  // Codes and scales of three matrices of one expert a layer at least; of each looked-up row both.
  const arch::Config& config = checkpoint.config();
  EXPECT_GE(counts.experts.pages, 6u * config.num_hidden_layers);
  EXPECT_GE(counts.engram.pages, 2u * ids.size() * config.engram.lookups());
  EXPECT_LE(counts.experts.resident, counts.experts.pages);
  const uint64_t engram = counts.engram.pages;
  EXPECT_EQ(run(model::Packing::kAll, true), expected);
  EXPECT_EQ(counts.experts.pages, 0u);
  EXPECT_EQ(counts.engram.pages, engram);
}

TEST(ReadAheadOfWeights, WhereThePlanExceedsMemory) {
  planner::StartupPlan plan;
  plan.weights_bytes = 1000;
  const std::vector<int32_t> map = {1, 2};
  for (const uint64_t memory : {999, 1000}) {
    plan.memory.bytes = memory;
    const auto options = model_options_of(plan, model::Mode::kExact, map);
    EXPECT_EQ(options.read_ahead, memory < 1000);
    EXPECT_EQ(options.mode, model::Mode::kExact);
    EXPECT_EQ(options.packing, model::Packing::kNone);
    EXPECT_EQ(options.token_map.data(), map.data());
  }
  plan.packing = {.dense_bytes = 300, .experts_bytes = 0, .source_bytes = 299};
  const auto options = model_options_of(plan, model::Mode::kFast, {});
  EXPECT_TRUE(options.read_ahead) << "packed weights are a byte larger than their source";
  EXPECT_EQ(options.packing, model::Packing::kDense);
}

}  // namespace
}  // namespace thimble::engine
