// Aim: the engine follows the reference on models of other shapes than the goldens', not only on
// the dimensions everybody tests. Method: random weights for a list of odd configurations, each run
// whole by the reference (without cache rounding) and in odd chunks by the engine: logits within
// 2e-4, every decision equal.
#include <gtest/gtest.h>

#include "arch/random_weights.h"
#include "base/random.h"
#include "engine/forced_run.h"
#include "model/reference.h"
#include "tests/golden/collector.h"

namespace thimble::golden {
namespace {

struct Shape {
  const char* name;
  void (*change)(arch::Config&);
};

// A small model with every role; the shapes below bend it.
arch::Config base_config() {
  arch::Config c;
  c.vocab_size = 160;
  c.hidden_size = 96;
  c.moe_intermediate_size = 64;
  c.num_hidden_layers = 6;
  c.num_attention_heads = 4;
  c.head_dim = 32;
  c.qk_rope_head_dim = 8;
  c.q_lora_rank = 32;
  c.o_groups = 2;
  c.o_lora_rank = 32;
  c.sliding_window = 5;
  c.compress_ratios = {0, 2, 2, 1, 1, 1};
  c.kv_source_layer_ids = {1, 3};
  c.index_source_layer_ids = {1, 3, 4};
  c.candidate_source_layer_id = 3;
  c.candidate_topk_blocks = 4;
  c.candidate_block_size = 3;
  c.index_topk = 6;
  c.index_n_heads = 6;
  c.index_head_dim = 32;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.n_routed_experts = 6;
  c.num_experts_per_tok = 2;
  c.routed_scaling_factor = 1.5;
  c.swiglu_limit = 10;
  c.compress_rope_theta = 160000;
  c.yarn = {16, 32, 1, 64};
  c.max_position_embeddings = 512;
  c.eos_token_id = 1;
  c.pad_token_id = 2;
  return c;
}

void add_engram(arch::Config& c, std::vector<uint32_t> layers, uint32_t ngrams) {
  c.engram.layer_ids = std::move(layers);
  c.engram.num_embeddings.assign(c.engram.layer_ids.size(), 2000);
  c.engram.max_ngram_size = ngrams;
  c.engram.vocab_size = 31;
  c.engram.n_heads = 3;
  c.engram.head_dim = 64;
  c.engram.pad_token_id = 2;
  c.engram.compressed_vocab_size = c.vocab_size;  // the identity map below
}

const Shape kShapes[] = {
    {"plain", [](arch::Config&) {}},
    {"odd_sizes",
     [](arch::Config& c) {
       c.vocab_size = 131;
       c.num_attention_heads = 9;
       c.o_groups = 3;
       c.index_n_heads = 5;
       c.n_routed_experts = 7;
       c.num_experts_per_tok = 3;
       c.hidden_size = 160;
     }},
    {"output_groups_across_scale_blocks",
     [](arch::Config& c) {
       c.o_groups = 4;
       c.o_lora_rank = 24;
     }},
    {"two_copies", [](arch::Config& c) { c.hc_mult = 2; }},
    {"three_copies_few_iterations",
     [](arch::Config& c) {
       c.hc_mult = 3;
       c.hc_sinkhorn_iters = 3;
     }},
    {"window_of_one", [](arch::Config& c) { c.sliding_window = 1; }},
    {"window_beyond_the_prompt", [](arch::Config& c) { c.sliding_window = 300; }},
    {"windows_only",
     [](arch::Config& c) {
       c.compress_ratios = {0, 0, 0, 0, 0, 0};
       c.kv_source_layer_ids = {};
       c.index_source_layer_ids = {};
       c.candidate_source_layer_id.reset();
     }},
    {"ratio_one_from_the_first_layer",
     [](arch::Config& c) {
       c.compress_ratios = {1, 1, 1, 1, 1, 1};
       c.kv_source_layer_ids = {0};
       c.index_source_layer_ids = {0, 2, 5};
       c.candidate_source_layer_id = 0;
     }},
    {"ratio_two_only",
     [](arch::Config& c) {
       c.compress_ratios = {2, 2, 2, 0, 2, 2};
       c.kv_source_layer_ids = {0, 4};
       c.index_source_layer_ids = {0, 4};
       c.candidate_source_layer_id.reset();
     }},
    {"everything_selected",
     [](arch::Config& c) {
       c.index_topk = 400;
       c.candidate_topk_blocks = 200;
     }},
    {"rope_over_the_whole_head", [](arch::Config& c) { c.qk_rope_head_dim = 32; }},
    {"wide_heads",
     [](arch::Config& c) {
       c.head_dim = 96;
       c.index_head_dim = 64;
       c.qk_rope_head_dim = 14;
     }},
    {"every_expert",
     [](arch::Config& c) {
       c.n_routed_experts = 3;
       c.num_experts_per_tok = 3;
     }},
    {"tight_clamp", [](arch::Config& c) { c.swiglu_limit = 0.05; }},
    {"engram_in_the_first_layer",
     [](arch::Config& c) {
       add_engram(c, {0, 3}, 4);
     }},
    {"bigrams_only", [](arch::Config& c) { add_engram(c, {2}, 2); }},
};

class RandomModels : public ::testing::TestWithParam<Shape> {};

TEST_P(RandomModels, EngineFollowsReference) {
  arch::Config config = base_config();
  GetParam().change(config);
  const base::TempDir dir;
  ASSERT_TRUE(arch::write_random_checkpoint(config, dir.path(), 7, [](uint64_t) {}));
  const auto checkpoint = arch::Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().describe();
  std::vector<int32_t> token_map(config.vocab_size);
  for (size_t i = 0; i < token_map.size(); ++i) token_map[i] = static_cast<int32_t>(i);
  std::vector<int32_t> ids;
  base::SplitMix64 random(3);
  for (int i = 0; i < 75; ++i) ids.push_back(static_cast<int32_t>(random.below(config.vocab_size)));

  model::ReferenceOptions reference_options;
  reference_options.mode = model::ReferenceMode::kNokvq;
  reference_options.token_map = token_map;
  const auto reference = model::Reference::create(*checkpoint, reference_options);
  ASSERT_TRUE(reference) << reference.error().describe();
  Collector wanted({"topk", "candidates", "expert_ids.layers", "engram_ids"});
  const auto expected = (*reference)->forward(ids, &wanted);
  ASSERT_TRUE(expected);

  model::ModelOptions options;
  options.mode = model::Mode::kNokvq;
  options.token_map = token_map;
  const auto model = model::Model::create(*checkpoint, options);
  ASSERT_TRUE(model) << model.error().describe();
  base::ThreadPool pool(2);
  Collector found({"topk", "candidates", "expert_ids.layers", "engram_ids"});
  const auto logits = engine::run_forced(**model, ids, {11, 64}, pool, &found);
  ASSERT_TRUE(logits) << logits.error().describe();

  EXPECT_LE(distance(*logits, *expected).max_abs, 2e-4);
  EXPECT_EQ(found.int_rows(), wanted.int_rows());
}

INSTANTIATE_TEST_SUITE_P(Shapes, RandomModels, ::testing::ValuesIn(kShapes),
                         [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace thimble::golden
