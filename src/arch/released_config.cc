#include "arch/config.h"
#include "base/check.h"

namespace thimble::arch {
namespace {

std::vector<uint32_t> released_ratios() {
  std::vector<uint32_t> ratios(2, 0);
  ratios.insert(ratios.end(), 18, 2);
  ratios.insert(ratios.end(), 20, 1);
  ratios.insert(ratios.end(), 3, 0);  // the draft layers
  return ratios;
}

EngramConfig released_engram() {
  EngramConfig e;
  e.layer_ids = {1, 14};
  e.num_embeddings = {384'006'168, 384'016'682};
  e.max_ngram_size = 4;
  e.vocab_size = 16'000'000;
  e.n_heads = 8;
  e.head_dim = 256;
  e.pad_token_id = 2;
  e.compressed_vocab_size = 99'092;
  return e;
}

DraftConfig released_draft() {
  DraftConfig d;
  d.num_layers = 3;
  d.block_size = 5;
  d.noise_token_id = 128'799;
  d.target_layer_ids = {37, 38, 39};
  d.markov_rank = 256;
  d.n_routed_experts = 128;
  d.num_experts_per_tok = 3;
  return d;
}

VisionConfig released_vision() {
  VisionConfig v;
  v.num_hidden_layers = 32;
  v.hidden_size = 1024;
  v.num_attention_heads = 16;
  v.intermediate_size = 2816;
  v.patch_size = 14;
  v.rope_theta = 10'000;
  v.downsample_ratio = 3;
  v.max_image_tokens = 1024;
  v.min_pixels = 544 * 544;
  return v;
}

// Backbone spec section 1.1.
Config make_released() {
  Config c;
  c.vocab_size = 129'280;
  c.hidden_size = 5120;
  c.moe_intermediate_size = 2304;
  c.num_hidden_layers = 40;
  c.num_attention_heads = 64;
  c.head_dim = 512;
  c.qk_rope_head_dim = 64;
  c.q_lora_rank = 1280;
  c.o_lora_rank = 1024;
  c.o_groups = 8;
  c.swiglu_limit = 10;
  c.rms_norm_eps = 1e-20;
  c.max_position_embeddings = 1'048'576;
  c.rope_theta = 10'000;
  c.yarn = {16, 32, 1, 65'536};
  c.compress_rope_theta = 160'000;
  c.n_routed_experts = 384;
  c.num_experts_per_tok = 6;
  c.routed_scaling_factor = 1.5;
  c.sliding_window = 128;
  c.compress_ratios = released_ratios();
  c.kv_source_layer_ids = {2, 8, 14, 20};
  c.index_source_layer_ids = {2, 8, 14, 20, 24, 28, 32, 36};
  c.index_n_heads = 32;
  c.index_head_dim = 128;
  c.index_topk = 512;
  c.candidate_source_layer_id = 20;
  c.candidate_topk_blocks = 2048;
  c.candidate_block_size = 8;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.hc_eps = 1e-6;
  c.engram = released_engram();
  c.draft = released_draft();
  c.vision = released_vision();
  c.bos_token_id = 0;
  c.eos_token_id = 1;
  c.pad_token_id = 2;
  c.image_token_id = 129'264;
  CHECK(validate(c).has_value());
  return c;
}

}  // namespace

const Config& released_config() {
  static const Config config = make_released();
  return config;
}

}  // namespace thimble::arch
