#include "train/internal/testing.h"

#include <cmath>
#include <numeric>

#include "arch/engram_tables.h"
#include "base/random.h"

namespace thimble::train::internal {
namespace {

// Window, Full 2, Reuse, Full 1, Reuse, Reindex, Reuse.
void add_roles(arch::Config& c) {
  c.num_hidden_layers = 7;
  c.compress_ratios = {0, 2, 2, 1, 1, 1, 1};
  c.kv_source_layer_ids = {1, 3};
  c.index_source_layer_ids = {1, 3, 5};
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.hc_eps = 1e-6;
  c.rms_norm_eps = 1e-20;
  c.swiglu_limit = 10;
  c.routed_scaling_factor = 1.5;
  c.num_experts_per_tok = 2;
  c.compress_rope_theta = 160'000;
  c.yarn = {16, 32, 1, 64};
  c.max_position_embeddings = 4096;
  c.eos_token_id = 1;
  c.pad_token_id = 2;
}

void add_engram(arch::Config& c, uint32_t layer, uint32_t ngrams, uint64_t rows, uint32_t dims) {
  c.engram.layer_ids = {layer};
  c.engram.max_ngram_size = ngrams;
  c.engram.vocab_size = rows;
  c.engram.n_heads = 2;
  c.engram.head_dim = dims;
  c.engram.pad_token_id = 2;
  c.engram.compressed_vocab_size = c.vocab_size;
  for (const auto& primes : arch::engram_primes(c.engram)) {
    c.engram.num_embeddings.push_back(arch::engram_rows(primes));
  }
}

}  // namespace

arch::Config xxs_config() {
  arch::Config c;
  add_roles(c);
  c.vocab_size = 32;
  c.hidden_size = 16;
  c.num_attention_heads = 2;
  c.head_dim = 8;
  c.qk_rope_head_dim = 4;
  c.q_lora_rank = 12;
  c.o_groups = 2;
  c.o_lora_rank = 6;
  c.moe_intermediate_size = 16;
  c.n_routed_experts = 3;
  c.sliding_window = 6;
  c.index_n_heads = 2;
  c.index_head_dim = 4;
  c.index_topk = 4;
  c.candidate_source_layer_id = 3;
  c.candidate_topk_blocks = 3;
  c.candidate_block_size = 2;
  add_engram(c, 1, 2, 13, 4);
  return c;
}

arch::Config xs_config() {
  arch::Config c;
  add_roles(c);
  c.vocab_size = 256;
  c.hidden_size = 64;
  c.num_attention_heads = 4;
  c.head_dim = 32;
  c.qk_rope_head_dim = 8;
  c.q_lora_rank = 64;
  c.o_groups = 2;
  c.o_lora_rank = 32;
  c.moe_intermediate_size = 64;
  c.n_routed_experts = 4;
  c.sliding_window = 16;
  c.index_n_heads = 4;
  c.index_head_dim = 32;
  c.index_topk = 8;
  c.candidate_source_layer_id = 3;
  c.candidate_topk_blocks = 4;
  c.candidate_block_size = 4;
  add_engram(c, 1, 3, 257, 32);
  return c;
}

std::vector<int32_t> identity_map(const arch::Config& config) {
  std::vector<int32_t> map(config.vocab_size);
  std::iota(map.begin(), map.end(), 0);
  return map;
}

Batch random_batch(const arch::Config& config, std::vector<int32_t> lengths, uint64_t seed) {
  base::SplitMix64 random(seed);
  Batch out;
  for (const int32_t length : lengths) {
    Document d;
    d.begin = static_cast<int32_t>(out.tokens.size());
    d.end = d.begin + length;
    for (int32_t i = 0; i < length; ++i) {
      out.tokens.push_back(static_cast<int32_t>(random.below(config.vocab_size)));
    }
    for (int32_t i = d.begin; i < d.end; ++i) {
      out.labels.push_back(i + 1 < d.end ? out.tokens[static_cast<size_t>(i) + 1] : -1);
    }
    out.documents.push_back(d);
  }
  return out;
}

TinyModel::TinyModel(arch::Config c) : config(std::move(c)), plan(arch::make_layer_plan(config)) {
  map = identity_map(config);
  if (!config.engram.layer_ids.empty()) hasher = *model::EngramHasher::create(config, map);
  parameters = parameters_of(config, plan);
}

std::vector<Tensor> lively_values(const std::vector<Parameter>& parameters, uint64_t seed) {
  base::SplitMix64 random(seed);
  std::vector<Tensor> out;
  for (const Parameter& p : parameters) {
    const bool norm = p.update == Update::kAdamDecayed;
    const bool matrix = p.update == Update::kMuon;
    double deviation = matrix ? 1.0 / std::sqrt(static_cast<double>(p.shape.back())) : 0.5;
    if (p.owner == Owner::kIndexer && matrix) deviation *= 1.6;
    if (norm || p.owner == Owner::kRouter) deviation = 0.2;
    Tensor t = at::empty(p.shape, at::kFloat);
    for (int64_t i = 0; i < t.numel(); ++i) {
      t.data_ptr<float>()[i] = static_cast<float>((norm ? 1 : 0) + deviation * random.normal());
    }
    out.push_back(t);
  }
  return out;
}

}  // namespace thimble::train::internal
