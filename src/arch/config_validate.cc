#include <algorithm>
#include <span>

#include "arch/config.h"
#include "arch/engram_tables.h"
#include "arch/internal/config_fields.h"

namespace thimble::arch {
namespace {

template <class... Args>
tl::unexpected<Error> conflict(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kCorrupt, format, std::forward<Args>(args)...);
}

template <class... Args>
tl::unexpected<Error> unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kUnsupported, format, std::forward<Args>(args)...);
}

// Visitor: the same ranges for configurations that no parser has seen.
struct RangeCheck {
  Result<void> result;

  void field(Key key, uint64_t value, IntRange range) {
    if (value < range.min || value > range.max) refuse(key.hf, value, range.min, range.max);
  }
  void field(Key key, double value, RealRange range) {
    if (!(value >= range.min && value <= range.max)) refuse(key.hf, value, range.min, range.max);
  }
  template <class T>
  void field(Key key, const std::vector<T>& values, IntRange range) {
    for (const T value : values) field(key, uint64_t{value}, range);
  }

 private:
  template <class T>
  void refuse(const char* key, T value, T min, T max) {
    if (result) result = conflict("{} is {}; expected {} to {}", key, value, min, max);
  }
};

Result<void> check_ranges(const Config& config) {
  RangeCheck check;
  visit_backbone(config, check);
  visit_yarn(config.yarn, check);
  check.field({"max_position_embeddings", ""}, config.max_position_embeddings,
              IntRange{1, kMaxTokens});
  if (config.has_global_cache()) visit_global_cache(config, check);
  if (config.candidate_source_layer_id) visit_candidates(config, check);
  if (!config.engram.layer_ids.empty()) visit_engram(config.engram, check);
  if (config.draft.num_layers > 0) visit_draft(config.draft, check);
  if (config.vision) {
    visit_vision(*config.vision, check);
    if (config.vision->max_wh_ratio) {
      check.field({"max_wh_ratio", ""}, *config.vision->max_wh_ratio, RealRange{1, kMaxReal});
    }
  }
  return check.result;
}

// Quantisation groups of 32 run along these, and tiles of 32x32 lie on them.
Result<void> check_groups(const Config& c) {
  const auto multiple = [](const char* what, uint64_t value, uint64_t of) -> Result<void> {
    if (value % of == 0) return {};
    return conflict("{} is {}; expected a multiple of {}", what, value, of);
  };
  THIMBLE_TRY(multiple("hidden_size", c.hidden_size, 32));
  THIMBLE_TRY(multiple("q_lora_rank", c.q_lora_rank, 32));
  THIMBLE_TRY(multiple("moe_intermediate_size", c.moe_intermediate_size, 32));
  THIMBLE_TRY(multiple("head_dim", c.head_dim, 32));
  THIMBLE_TRY(multiple("o_groups * o_lora_rank", uint64_t{c.o_groups} * c.o_lora_rank, 32));
  if (c.num_attention_heads % c.o_groups != 0) {
    return conflict("num_attention_heads is {}; expected a multiple of o_groups, {}",
                    c.num_attention_heads, c.o_groups);
  }
  THIMBLE_TRY(multiple("qk_rope_head_dim", c.qk_rope_head_dim, 2));
  if (c.qk_rope_head_dim > c.head_dim) {
    return conflict("qk_rope_head_dim is {}; expected at most head_dim, {}", c.qk_rope_head_dim,
                    c.head_dim);
  }
  if (!c.has_global_cache()) return {};
  THIMBLE_TRY(multiple("index_head_dim", c.index_head_dim, 32));
  if (c.qk_rope_head_dim > c.index_head_dim) {
    return conflict("qk_rope_head_dim is {}; expected at most index_head_dim, {}",
                    c.qk_rope_head_dim, c.index_head_dim);
  }
  return {};
}

Result<void> check_experts(const Config& c) {
  if (c.n_shared_experts != 1) {
    return unsupported("n_shared_experts is {}; only 1 is supported", c.n_shared_experts);
  }
  if (c.num_experts_per_tok > c.n_routed_experts) {
    return conflict("num_experts_per_tok is {}; expected at most n_routed_experts, {}",
                    c.num_experts_per_tok, c.n_routed_experts);
  }
  const uint64_t all = uint64_t{c.num_hidden_layers} * c.n_routed_experts +
                       uint64_t{c.draft.num_layers} * c.draft.n_routed_experts;
  if (all > kMaxAllExperts) {
    return unsupported(
        "num_hidden_layers and n_routed_experts make {} experts; at most {} are "
        "supported",
        all, kMaxAllExperts);
  }
  return {};
}

// Strictly ascending layer numbers of the backbone.
Result<void> check_layer_list(const char* key, std::span<const uint32_t> layers, const Config& c) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= c.num_hidden_layers) {
      return conflict("{}[{}] is {}; expected a layer below num_hidden_layers, {}", key, i,
                      layers[i], c.num_hidden_layers);
    }
    if (i > 0 && layers[i] <= layers[i - 1]) {
      return conflict("{}[{}] is {}, after {}; expected ascending layers", key, i, layers[i],
                      layers[i - 1]);
    }
  }
  return {};
}

bool contains(std::span<const uint32_t> list, uint32_t value) {
  return std::ranges::find(list, value) != list.end();
}

// A source must read the cache it feeds.
Result<void> check_source_ratios(const char* key, std::span<const uint32_t> layers,
                                 const Config& c) {
  THIMBLE_TRY(check_layer_list(key, layers, c));
  for (size_t i = 0; i < layers.size(); ++i) {
    if (c.compress_ratios[layers[i]] == 0) {
      return conflict("{}[{}] is layer {}, whose compress_ratios entry is 0; expected 1 or 2", key,
                      i, layers[i]);
    }
  }
  return {};
}

Result<void> check_ratios(const Config& c) {
  const size_t expected = size_t{c.num_hidden_layers} + c.draft.num_layers;
  if (c.compress_ratios.size() != expected) {
    return conflict(
        "compress_ratios has {} entries; expected {}: num_hidden_layers {} and "
        "num_nextn_predict_layers {}",
        c.compress_ratios.size(), expected, c.num_hidden_layers, c.draft.num_layers);
  }
  for (size_t i = c.num_hidden_layers; i < expected; ++i) {
    if (c.compress_ratios[i] != 0) {
      return conflict("compress_ratios[{}] is {}; expected 0 for a draft layer", i,
                      c.compress_ratios[i]);
    }
  }
  return {};
}

// Every compressed layer reads the last KV source at or before it, which must compress alike.
Result<void> check_owners(const Config& c) {
  THIMBLE_TRY(check_source_ratios("kv_source_layer_ids", c.kv_source_layer_ids, c));
  THIMBLE_TRY(check_source_ratios("index_source_layer_ids", c.index_source_layer_ids, c));
  for (const uint32_t layer : c.kv_source_layer_ids) {
    if (!contains(c.index_source_layer_ids, layer)) {
      return conflict(
          "kv_source_layer_ids has layer {}, which index_source_layer_ids lacks; every "
          "KV source selects for itself",
          layer);
    }
  }
  std::optional<uint32_t> source;
  for (uint32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    if (contains(c.kv_source_layer_ids, layer)) source = layer;
    const uint32_t ratio = c.compress_ratios[layer];
    if (ratio == 0) continue;
    if (!source) {
      return conflict(
          "compress_ratios[{}] is {}, but kv_source_layer_ids has no layer at or before "
          "{}",
          layer, ratio, layer);
    }
    if (c.compress_ratios[*source] != ratio) {
      return conflict(
          "compress_ratios[{}] is {}, but its KV source, layer {} of "
          "kv_source_layer_ids, has ratio {}",
          layer, ratio, *source, c.compress_ratios[*source]);
    }
  }
  return {};
}

Result<void> check_candidates(const Config& c) {
  if (!c.candidate_source_layer_id) return {};
  const uint32_t layer = *c.candidate_source_layer_id;
  if (!contains(c.kv_source_layer_ids, layer)) {
    return conflict(
        "candidate_source_layer_id is {}; expected a layer of kv_source_layer_ids, "
        "[{}]",
        layer, fmt::join(c.kv_source_layer_ids, ", "));
  }
  const uint64_t kept = uint64_t{c.candidate_topk_blocks} * c.candidate_block_size;
  if (kept < c.index_topk) {
    return conflict(
        "candidate_topk_blocks * candidate_block_size is {}; expected at least "
        "index_topk, {}",
        kept, c.index_topk);
  }
  return {};
}

Result<void> check_engram(const Config& c) {
  const EngramConfig& e = c.engram;
  if (e.layer_ids.empty()) return {};
  THIMBLE_TRY(check_layer_list("engram_layer_ids", e.layer_ids, c));
  if (e.num_embeddings.size() != e.layer_ids.size()) {
    return conflict(
        "engram_num_embeddings has {} entries; expected {}, one for each of "
        "engram_layer_ids",
        e.num_embeddings.size(), e.layer_ids.size());
  }
  if (e.head_dim % 32 != 0) {
    return conflict("engram_head_dim is {}; expected a multiple of 32", e.head_dim);
  }
  if (e.pad_token_id >= c.vocab_size) {
    return conflict("engram_pad_token_id is {}; expected below vocab_size, {}", e.pad_token_id,
                    c.vocab_size);
  }
  if (e.compressed_vocab_size > c.vocab_size) {
    return conflict("engram_compressed_vocab_size is {}; expected at most vocab_size, {}",
                    e.compressed_vocab_size, c.vocab_size);
  }
  const uint64_t lookups = e.layer_ids.size() * uint64_t{e.lookups()};
  if (lookups > kMaxLookups) {
    return unsupported(
        "engram_layer_ids, engram_max_ngram_size and engram_n_heads make {} lookups a token; at "
        "most {} are supported",
        lookups, kMaxLookups);
  }
  const auto primes = engram_primes(e);
  for (size_t i = 0; i < primes.size(); ++i) {
    const uint64_t rows = engram_rows(primes[i]);
    if (e.num_embeddings[i] < rows) {
      return conflict(
          "engram_num_embeddings[{}] is {}; layer {} addresses {} rows, the sum of the "
          "{} primes from engram_vocab_size {} on",
          i, e.num_embeddings[i], e.layer_ids[i], rows, primes[i].size(), e.vocab_size);
    }
  }
  return {};
}

Result<void> check_draft(const Config& c) {
  const DraftConfig& d = c.draft;
  if (d.num_layers == 0) return {};
  THIMBLE_TRY(check_layer_list("dspark_target_layer_ids", d.target_layer_ids, c));
  if (d.target_layer_ids.empty()) {
    return conflict("dspark_target_layer_ids is empty; the draft layers need one layer to read");
  }
  if (d.noise_token_id >= c.vocab_size) {
    return conflict("dspark_noise_token_id is {}; expected below vocab_size, {}", d.noise_token_id,
                    c.vocab_size);
  }
  if (d.num_experts_per_tok > d.n_routed_experts) {
    return conflict(
        "dspark_num_experts_per_tok is {}; expected at most dspark_n_routed_experts, "
        "{}",
        d.num_experts_per_tok, d.n_routed_experts);
  }
  return {};
}

Result<void> check_vision(const Config& c) {
  if (!c.vision) return {};
  const VisionConfig& v = *c.vision;
  if (v.hidden_size % (4 * v.num_attention_heads) != 0) {
    return conflict("vision hidden_size is {}; expected a multiple of 4 * num_attention_heads, {}",
                    v.hidden_size, 4 * v.num_attention_heads);
  }
  if (!c.image_token_id) return conflict("image_token_id is missing; vision_config needs it");
  return {};
}

Result<void> check_tokens(const Config& c) {
  const auto below_vocab = [&c](const char* key, uint32_t id) -> Result<void> {
    if (id < c.vocab_size) return {};
    return conflict("{} is {}; expected below vocab_size, {}", key, id, c.vocab_size);
  };
  THIMBLE_TRY(below_vocab("bos_token_id", c.bos_token_id));
  THIMBLE_TRY(below_vocab("eos_token_id", c.eos_token_id));
  THIMBLE_TRY(below_vocab("pad_token_id", c.pad_token_id));
  if (c.image_token_id) THIMBLE_TRY(below_vocab("image_token_id", *c.image_token_id));
  return {};
}

}  // namespace

Result<void> validate(const Config& config) {
  THIMBLE_TRY(check_ranges(config));
  THIMBLE_TRY(check_groups(config));
  THIMBLE_TRY(check_experts(config));
  THIMBLE_TRY(check_ratios(config));
  THIMBLE_TRY(check_owners(config));
  THIMBLE_TRY(check_candidates(config));
  THIMBLE_TRY(check_engram(config));
  THIMBLE_TRY(check_draft(config));
  THIMBLE_TRY(check_vision(config));
  return check_tokens(config);
}

}  // namespace thimble::arch
