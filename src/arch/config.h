// The model as its configuration states it: every number of `config.json`, checked against the
// others.
//
// Read once with parse_config(); immutable afterwards. Two spellings are accepted: the nested
// Hugging Face layout (`text_config`, `vision_config`) and the flat one of the reference's
// `inference/` folder (docs/glossary.md maps the names). Integers keep 64 bits. Source: backbone
// spec section 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace thimble::arch {

struct YarnScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  uint32_t original_max_position_embeddings = 0;  // 0: no YaRN

  bool operator==(const YarnScaling&) const = default;
};

// Engram: hashed n-gram memory. Present when `layer_ids` is not empty.
struct EngramConfig {
  std::vector<uint32_t> layer_ids;       // ascending
  std::vector<uint64_t> num_embeddings;  // table rows of each of those layers
  uint32_t max_ngram_size = 0;           // n-grams of 2..max_ngram_size tokens
  uint64_t vocab_size = 0;               // where the prime search starts
  uint32_t n_heads = 0;                  // lookups per n-gram size
  uint32_t head_dim = 0;                 // values per lookup
  uint32_t pad_token_id = 0;             // a raw token id
  uint32_t compressed_vocab_size = 0;    // distinct classes of the token map

  // Lookups per token and layer: (max_ngram_size - 1) * n_heads.
  uint32_t lookups() const { return layer_ids.empty() ? 0 : (max_ngram_size - 1) * n_heads; }
  uint32_t width() const { return lookups() * head_dim; }  // input width of engram.wkv

  bool operator==(const EngramConfig&) const = default;
};

// DSpark: the draft layers `mtp.*`. Present when num_layers > 0.
struct DraftConfig {
  uint32_t num_layers = 0;
  uint32_t block_size = 0;
  uint32_t noise_token_id = 0;
  std::vector<uint32_t> target_layer_ids;
  uint32_t markov_rank = 0;
  uint32_t n_routed_experts = 0;
  uint32_t num_experts_per_tok = 0;

  bool operator==(const DraftConfig&) const = default;
};

struct VisionConfig {
  uint32_t num_hidden_layers = 0;
  uint32_t hidden_size = 0;
  uint32_t num_attention_heads = 0;
  uint32_t intermediate_size = 0;
  uint32_t patch_size = 0;
  double rope_theta = 10000;
  uint32_t downsample_ratio = 0;
  uint32_t max_image_tokens = 0;
  uint64_t min_pixels = 0;
  std::optional<double> max_wh_ratio;

  bool operator==(const VisionConfig&) const = default;
};

struct Config {
  uint32_t vocab_size = 0;
  uint32_t hidden_size = 0;
  uint32_t moe_intermediate_size = 0;
  uint32_t num_hidden_layers = 0;
  uint32_t num_attention_heads = 0;
  uint32_t head_dim = 0;
  uint32_t qk_rope_head_dim = 0;
  uint32_t q_lora_rank = 0;
  uint32_t o_lora_rank = 0;
  uint32_t o_groups = 0;
  double swiglu_limit = 0;
  double rms_norm_eps = 1e-20;
  uint64_t max_position_embeddings = 0;
  double rope_theta = 10000;
  YarnScaling yarn;
  double compress_rope_theta = 0;
  uint32_t n_routed_experts = 0;
  uint32_t n_shared_experts = 1;
  uint32_t num_experts_per_tok = 0;
  double routed_scaling_factor = 1;
  uint32_t sliding_window = 0;
  std::vector<uint32_t> compress_ratios;         // backbone layers, then draft layers
  std::vector<uint32_t> kv_source_layer_ids;     // ascending
  std::vector<uint32_t> index_source_layer_ids;  // ascending
  uint32_t index_n_heads = 0;
  uint32_t index_head_dim = 0;
  uint32_t index_topk = 0;
  std::optional<uint32_t> candidate_source_layer_id;
  uint32_t candidate_topk_blocks = 0;
  uint32_t candidate_block_size = 0;
  uint32_t hc_mult = 0;
  uint32_t hc_sinkhorn_iters = 0;
  double hc_eps = 1e-6;
  EngramConfig engram;
  DraftConfig draft;
  std::optional<VisionConfig> vision;
  uint32_t bos_token_id = 0;
  uint32_t eos_token_id = 0;
  uint32_t pad_token_id = 0;
  std::optional<uint32_t> image_token_id;

  // Layers whose global KV is read by someone, i.e. any compressed layer at all.
  bool has_global_cache() const { return !kv_source_layer_ids.empty(); }

  bool operator==(const Config&) const = default;
};

// Parses and cross-validates. The error names the key, what it held and what it had to agree with:
// kCorrupt for a file that contradicts itself, kUnsupported for a model that is none of ours.
Result<Config> parse_config(std::string_view json);
Result<Config> load_config(const Path& file);

// What parse_config() checks once every key is read; for configurations made in code.
Result<void> validate(const Config& config);

// The released model's configuration, built in (`thimble inspect released`, the planner, tests).
const Config& released_config();

// The nested Hugging Face form of `config`; parse_config() of it gives `config` back.
std::string to_json(const Config& config);

}  // namespace thimble::arch
