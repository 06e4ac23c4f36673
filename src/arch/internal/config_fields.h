// Every key of `config.json` once: its Hugging Face name, its name in the flat file, where it is
// kept and what range it may have. Parsing and writing both walk this list.
//
// A visitor has field(Key, value&, range) for uint32_t, uint64_t, double and vectors of the
// integers.
#pragma once

#include <cstdint>
#include <limits>

#include "arch/config.h"

namespace thimble::arch {

struct Key {
  const char* hf;    // inside text_config or vision_config
  const char* flat;  // in inference/config.json
};

// Inclusive bounds of an integer, or of each element of a list.
struct IntRange {
  uint64_t min = 0;
  uint64_t max = 0;
};

// Inclusive bounds of a real number.
struct RealRange {
  double min = 0;
  double max = 0;
};

// Caps that keep every product of dimensions inside 64 bits, far above any model of this kind.
inline constexpr uint64_t kMaxWidth = 1 << 16;  // hidden, ranks, head and expert widths
inline constexpr uint64_t kMaxVocab = 1 << 24;
inline constexpr uint64_t kMaxLayers = 1024;
inline constexpr uint64_t kMaxExperts = 1 << 16;     // of one layer
inline constexpr uint64_t kMaxAllExperts = 1 << 18;  // of all layers together
inline constexpr uint64_t kMaxHeads = 1 << 12;
inline constexpr uint64_t kMaxTokens = 1ULL << 40;
inline constexpr uint64_t kMaxRows = 1ULL << 40;  // of an Engram table
inline constexpr uint64_t kMaxLookups = 1 << 12;  // Engram's, of all layers together
inline constexpr double kMaxReal = 1e30;

template <class Config, class Visitor>
void visit_backbone(Config& c, Visitor&& v) {
  v.field(Key{"vocab_size", "vocab_size"}, c.vocab_size, IntRange{1, kMaxVocab});
  v.field(Key{"hidden_size", "dim"}, c.hidden_size, IntRange{1, kMaxWidth});
  v.field(Key{"moe_intermediate_size", "moe_inter_dim"}, c.moe_intermediate_size,
          IntRange{1, kMaxWidth});
  v.field(Key{"num_hidden_layers", "n_layers"}, c.num_hidden_layers, IntRange{1, kMaxLayers});
  v.field(Key{"num_attention_heads", "n_heads"}, c.num_attention_heads, IntRange{1, kMaxHeads});
  v.field(Key{"head_dim", "head_dim"}, c.head_dim, IntRange{1, kMaxWidth});
  v.field(Key{"qk_rope_head_dim", "rope_head_dim"}, c.qk_rope_head_dim, IntRange{2, kMaxWidth});
  v.field(Key{"q_lora_rank", "q_lora_rank"}, c.q_lora_rank, IntRange{1, kMaxWidth});
  v.field(Key{"o_lora_rank", "o_lora_rank"}, c.o_lora_rank, IntRange{1, kMaxWidth});
  v.field(Key{"o_groups", "o_groups"}, c.o_groups, IntRange{1, kMaxHeads});
  v.field(Key{"swiglu_limit", "swiglu_limit"}, c.swiglu_limit, RealRange{1e-6, kMaxReal});
  v.field(Key{"rms_norm_eps", "norm_eps"}, c.rms_norm_eps, RealRange{1e-30, 1e-2});
  v.field(Key{"rope_theta", "rope_theta"}, c.rope_theta, RealRange{1.0000001, kMaxReal});
  v.field(Key{"n_routed_experts", "n_routed_experts"}, c.n_routed_experts,
          IntRange{1, kMaxExperts});
  v.field(Key{"num_experts_per_tok", "n_activated_experts"}, c.num_experts_per_tok,
          IntRange{1, kMaxExperts});
  v.field(Key{"routed_scaling_factor", "route_scale"}, c.routed_scaling_factor,
          RealRange{1e-6, kMaxReal});
  v.field(Key{"sliding_window", "window_size"}, c.sliding_window, IntRange{1, 1 << 24});
  v.field(Key{"compress_ratios", "compress_ratios"}, c.compress_ratios, IntRange{0, 2});
  v.field(Key{"kv_source_layer_ids", "kv_source_layers"}, c.kv_source_layer_ids,
          IntRange{0, kMaxLayers});
  v.field(Key{"index_source_layer_ids", "index_source_layers"}, c.index_source_layer_ids,
          IntRange{0, kMaxLayers});
  v.field(Key{"hc_mult", "hc_mult"}, c.hc_mult, IntRange{1, 16});
  v.field(Key{"hc_sinkhorn_iters", "hc_sinkhorn_iters"}, c.hc_sinkhorn_iters, IntRange{1, 1000});
  v.field(Key{"hc_eps", "hc_eps"}, c.hc_eps, RealRange{1e-30, 1});
}

// In text_config.rope_scaling, or beside the rest in the flat file.
template <class Yarn, class Visitor>
void visit_yarn(Yarn& y, Visitor&& v) {
  v.field(Key{"factor", "rope_factor"}, y.factor, RealRange{1, 1e6});
  v.field(Key{"beta_fast", "beta_fast"}, y.beta_fast, RealRange{1e-6, 1e6});
  v.field(Key{"beta_slow", "beta_slow"}, y.beta_slow, RealRange{1e-6, 1e6});
  v.field(Key{"original_max_position_embeddings", "original_seq_len"},
          y.original_max_position_embeddings, IntRange{0, 1ULL << 31});
}

// Only where some layer has global KV.
template <class Config, class Visitor>
void visit_global_cache(Config& c, Visitor&& v) {
  v.field(Key{"compress_rope_theta", "compress_rope_theta"}, c.compress_rope_theta,
          RealRange{1.0000001, kMaxReal});
  v.field(Key{"index_n_heads", "index_n_heads"}, c.index_n_heads, IntRange{1, kMaxHeads});
  v.field(Key{"index_head_dim", "index_head_dim"}, c.index_head_dim, IntRange{1, kMaxWidth});
  v.field(Key{"index_topk", "index_topk"}, c.index_topk, IntRange{1, 1 << 24});
}

// Only where there is a candidate source.
template <class Config, class Visitor>
void visit_candidates(Config& c, Visitor&& v) {
  v.field(Key{"candidate_topk_blocks", "candidate_topk_blocks"}, c.candidate_topk_blocks,
          IntRange{1, 1 << 24});
  v.field(Key{"candidate_block_size", "candidate_block_size"}, c.candidate_block_size,
          IntRange{1, 1 << 16});
}

template <class Engram, class Visitor>
void visit_engram(Engram& e, Visitor&& v) {
  v.field(Key{"engram_num_embeddings", "engram_num_embeddings"}, e.num_embeddings,
          IntRange{1, kMaxRows});
  v.field(Key{"engram_max_ngram_size", "engram_max_ngram_size"}, e.max_ngram_size, IntRange{2, 16});
  v.field(Key{"engram_vocab_size", "engram_vocab_size"}, e.vocab_size, IntRange{2, kMaxRows});
  v.field(Key{"engram_n_heads", "engram_n_heads"}, e.n_heads, IntRange{1, 64});
  v.field(Key{"engram_head_dim", "engram_head_dim"}, e.head_dim, IntRange{1, 1 << 12});
  v.field(Key{"engram_pad_token_id", "engram_pad_id"}, e.pad_token_id, IntRange{0, kMaxVocab});
  v.field(Key{"engram_compressed_vocab_size", "engram_compressed_vocab_size"},
          e.compressed_vocab_size, IntRange{1, kMaxVocab});
}

template <class Draft, class Visitor>
void visit_draft(Draft& d, Visitor&& v) {
  v.field(Key{"dspark_block_size", "dspark_block_size"}, d.block_size, IntRange{1, 1024});
  v.field(Key{"dspark_noise_token_id", "dspark_noise_token_id"}, d.noise_token_id,
          IntRange{0, kMaxVocab});
  v.field(Key{"dspark_target_layer_ids", "dspark_target_layer_ids"}, d.target_layer_ids,
          IntRange{0, kMaxLayers});
  v.field(Key{"dspark_markov_rank", "dspark_markov_rank"}, d.markov_rank, IntRange{1, kMaxWidth});
  v.field(Key{"dspark_n_routed_experts", "dspark_n_routed_experts"}, d.n_routed_experts,
          IntRange{1, kMaxExperts});
  v.field(Key{"dspark_num_experts_per_tok", "dspark_n_activated_experts"}, d.num_experts_per_tok,
          IntRange{1, kMaxExperts});
}

template <class Vision, class Visitor>
void visit_vision(Vision& s, Visitor&& v) {
  v.field(Key{"num_hidden_layers", "vision_n_layers"}, s.num_hidden_layers,
          IntRange{1, kMaxLayers});
  v.field(Key{"hidden_size", "vision_dim"}, s.hidden_size, IntRange{1, kMaxWidth});
  v.field(Key{"num_attention_heads", "vision_n_heads"}, s.num_attention_heads,
          IntRange{1, kMaxHeads});
  v.field(Key{"intermediate_size", "vision_inter_dim"}, s.intermediate_size,
          IntRange{1, kMaxWidth});
  v.field(Key{"patch_size", "vision_patch_size"}, s.patch_size, IntRange{1, 256});
  v.field(Key{"rope_theta", "vision_rope_theta"}, s.rope_theta, RealRange{1.0000001, kMaxReal});
  v.field(Key{"downsample_ratio", "vision_downsample_ratio"}, s.downsample_ratio, IntRange{1, 64});
  v.field(Key{"max_image_tokens", "vision_max_n_token"}, s.max_image_tokens, IntRange{1, 1 << 24});
  v.field(Key{"min_pixels", "vision_min_pixels"}, s.min_pixels, IntRange{0, kMaxTokens});
}

}  // namespace thimble::arch
