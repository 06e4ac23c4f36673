#include "arch/presets.h"

#include "arch/engram_tables.h"
#include "base/check.h"

namespace thimble::arch {
namespace {

EngramConfig nano_engram(uint32_t compressed_vocab_size) {
  EngramConfig e;
  e.layer_ids = {1, 4};
  e.max_ngram_size = 4;
  e.vocab_size = 2000;
  e.n_heads = 2;
  e.head_dim = 32;
  e.pad_token_id = 2;
  e.compressed_vocab_size = compressed_vocab_size;
  for (const auto& primes : engram_primes(e)) e.num_embeddings.push_back(engram_rows(primes));
  return e;
}

}  // namespace

Config nano_config(uint32_t vocab_size, uint32_t compressed_vocab_size) {
  Config c;
  c.vocab_size = vocab_size;
  c.hidden_size = 256;
  c.moe_intermediate_size = 128;
  c.num_hidden_layers = 12;
  c.num_attention_heads = 8;
  c.head_dim = 64;
  c.qk_rope_head_dim = 16;
  c.q_lora_rank = 128;
  c.o_lora_rank = 64;
  c.o_groups = 2;
  c.swiglu_limit = 10;
  c.rms_norm_eps = 1e-20;
  c.max_position_embeddings = 65'536;
  c.rope_theta = 10'000;
  c.yarn = {16, 32, 1, 4096};
  c.compress_rope_theta = 160'000;
  c.n_routed_experts = 16;
  c.num_experts_per_tok = 2;
  c.routed_scaling_factor = 1.5;
  c.sliding_window = 64;
  c.compress_ratios = {0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1};
  c.kv_source_layer_ids = {2, 4, 6};
  c.index_source_layer_ids = {2, 4, 6, 8, 10};
  c.index_n_heads = 8;
  c.index_head_dim = 32;
  c.index_topk = 64;
  c.candidate_source_layer_id = 6;
  c.candidate_topk_blocks = 64;
  c.candidate_block_size = 8;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.hc_eps = 1e-6;
  c.engram = nano_engram(compressed_vocab_size);
  c.bos_token_id = 0;
  c.eos_token_id = 1;
  c.pad_token_id = 2;
  CHECK(validate(c).has_value());
  return c;
}

}  // namespace thimble::arch
