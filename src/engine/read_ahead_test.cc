// Aim: weights asked for ahead of their use are counted and change no bit. Method: one run with and
// without, experts packed and not.
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

}  // namespace
}  // namespace thimble::engine
