#include "arch/config.h"
#include "arch/internal/config_fields.h"
#include "arch/internal/field_reader.h"
#include "arch/internal/json.h"

namespace thimble::arch {
namespace {

constexpr uint64_t kMaxConfigBytes = 16 << 20;

Key same(const char* name) { return {name, name}; }

// Settings of the family that exist in one value only (spec section 1.1); absent means that value.
void check_fixed_settings(FieldReader& text) {
  text.only_text(same("hidden_act"), "silu");
  text.only_text({"scoring_func", "score_func"}, "sqrtsoftplus");
  text.only_text(same("topk_method"), "noaux_tc");
  text.only_flag(same("norm_topk_prob"), true);
  text.only_flag(same("tie_word_embeddings"), false);
  text.only_flag(same("attention_bias"), false);
  text.only_number(same("num_key_value_heads"), 1);
  text.only_number(same("n_shared_experts"), 1);
  text.only_number(same("first_k_dense_replace"), 0);
  text.only_number(same("num_hash_layers"), 0);
  text.only_number(same("n_hash_layers"), 0);
  text.only_number(same("n_group"), 1);
  text.only_number(same("topk_group"), 1);
  text.only_number(same("gate_temp"), 1);
  text.only_absent(same("mscale"));
  text.only_absent(same("rope_parameters"));
}

Result<void> read_nested_yarn(FieldReader& text, YarnScaling& yarn) {
  const Json* found = text.find(same("rope_scaling"));
  if (found == nullptr) return {};
  const std::string path = text.path_of(same("rope_scaling"));
  if (found->get<Json::Object>() == nullptr) {
    return fail(ErrorCode::kCorrupt, "{} is {}; expected an object", path, brief(*found));
  }
  FieldReader scaling(*found, path + ".", Spelling::kHuggingFace);
  scaling.only_text(same("rope_type"), "yarn");
  scaling.only_text(same("type"), "yarn");
  scaling.only_absent(same("mscale"));
  scaling.only_absent(same("mscale_all_dim"));
  scaling.only_absent(same("attention_factor"));
  visit_yarn(yarn, scaling);
  return scaling.result();
}

// Without a length the flat file has no YaRN, whatever else it says of it.
void read_flat_yarn(FieldReader& text, YarnScaling& yarn) {
  if (text.has(same("original_seq_len"))) visit_yarn(yarn, text);
}

// Everything the text model says, in either spelling.
Result<void> read_text(FieldReader& text, Spelling spelling, Config& config) {
  check_fixed_settings(text);
  visit_backbone(config, text);
  if (config.has_global_cache()) visit_global_cache(config, text);
  const Key candidate{"candidate_source_layer_id", "candidate_source_layer"};
  if (text.has(candidate)) {
    text.field(candidate, config.candidate_source_layer_id.emplace(), IntRange{0, kMaxLayers});
    visit_candidates(config, text);
  }
  text.optional_field(same("engram_layer_ids"), config.engram.layer_ids, IntRange{0, kMaxLayers});
  if (!config.engram.layer_ids.empty()) visit_engram(config.engram, text);
  text.optional_field({"num_nextn_predict_layers", "n_mtp_layers"}, config.draft.num_layers,
                      IntRange{0, kMaxLayers});
  if (config.draft.num_layers > 0) visit_draft(config.draft, text);
  if (spelling == Spelling::kFlat) {
    read_flat_yarn(text, config.yarn);
  } else {
    THIMBLE_TRY(read_nested_yarn(text, config.yarn));
  }
  if (config.yarn.original_max_position_embeddings == 0) config.yarn = {};
  const Key length{"max_position_embeddings", "max_seq_len"};
  // The flat file may leave the length to the command line: then it is as far as YaRN reaches.
  config.max_position_embeddings =
      static_cast<uint64_t>(config.yarn.factor * config.yarn.original_max_position_embeddings);
  const bool derived = spelling == Spelling::kFlat && config.max_position_embeddings > 0;
  if (text.has(length) || !derived) {
    text.field(length, config.max_position_embeddings, IntRange{1, kMaxTokens});
  }
  return text.result();
}

void read_token_ids(FieldReader& reader, Config& config) {
  config.bos_token_id = 0;
  config.eos_token_id = 1;
  config.pad_token_id = 2;
  const IntRange ids{0, kMaxVocab};
  reader.optional_field(same("bos_token_id"), config.bos_token_id, ids);
  reader.optional_field(same("eos_token_id"), config.eos_token_id, ids);
  reader.optional_field(same("pad_token_id"), config.pad_token_id, ids);
  if (reader.has(same("image_token_id"))) {
    reader.field(same("image_token_id"), config.image_token_id.emplace(), ids);
  }
}

Result<void> check_quantisation(const Json& root) {
  const Json* found = root.find("quantization_config");
  if (found == nullptr || found->get<Json::Object>() == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "quantization_config is {}; only FP8 weights in 32x32 blocks with FP4 experts are "
                "supported",
                found == nullptr ? "missing" : brief(*found));
  }
  FieldReader quant(*found, "quantization_config.", Spelling::kHuggingFace);
  quant.only_text(same("quant_method"), "fp8");
  quant.only_text(same("activation_scheme"), "dynamic");
  quant.only_text(same("scale_fmt"), "ue8m0");
  quant.only_text(same("expert_dtype"), "fp4");
  std::vector<uint32_t> block{32, 32};
  quant.optional_field(same("weight_block_size"), block, IntRange{1, 1 << 16});
  THIMBLE_TRY(quant.result());
  if (block != std::vector<uint32_t>{32, 32}) {
    return fail(ErrorCode::kUnsupported,
                "quantization_config.weight_block_size is [{}]; only [32, 32] is supported",
                fmt::join(block, ", "));
  }
  return {};
}

Result<void> read_vision(const Json& object, std::string path, Spelling spelling,
                         VisionConfig& vision) {
  FieldReader reader(object, std::move(path), spelling);
  visit_vision(vision, reader);
  const Key ratio{"max_wh_ratio", "vision_max_wh_ratio"};
  if (reader.has(ratio)) {
    reader.field(ratio, vision.max_wh_ratio.emplace(), RealRange{1, kMaxReal});
  }
  return reader.result();
}

Result<const Json*> section(const Json& root, const char* name) {
  const Json* found = root.find(name);
  if (found == nullptr || found->get<std::nullptr_t>() != nullptr) return nullptr;
  if (found->get<Json::Object>() == nullptr) {
    return fail(ErrorCode::kCorrupt, "{} is {}; expected an object", name, brief(*found));
  }
  return found;
}

Result<Config> parse_nested(const Json& root, const Json& text_object) {
  Config config;
  THIMBLE_TRY(check_quantisation(root));
  FieldReader top(root, "", Spelling::kHuggingFace);
  read_token_ids(top, config);
  THIMBLE_TRY(top.result());
  FieldReader text(text_object, "text_config.", Spelling::kHuggingFace);
  THIMBLE_TRY(read_text(text, Spelling::kHuggingFace, config));
  if (const Json* vision = THIMBLE_TRY(section(root, "vision_config"))) {
    THIMBLE_TRY(
        read_vision(*vision, "vision_config.", Spelling::kHuggingFace, config.vision.emplace()));
  }
  return config;
}

Result<Config> parse_flat(const Json& root) {
  Config config;
  FieldReader text(root, "", Spelling::kFlat);
  text.only_text(same("scale_fmt"), "ue8m0");
  text.only_text(same("expert_dtype"), "fp4");
  read_token_ids(text, config);
  THIMBLE_TRY(read_text(text, Spelling::kFlat, config));
  if (text.has(same("vision_n_layers")) || text.has(same("vision_dim"))) {
    THIMBLE_TRY(read_vision(root, "", Spelling::kFlat, config.vision.emplace()));
  }
  return config;
}

Result<Config> parse_unvalidated(const Json& root) {
  if (root.get<Json::Object>() == nullptr) {
    return fail(ErrorCode::kCorrupt, "the document is {}; expected an object", brief(root));
  }
  FieldReader top(root, "", Spelling::kHuggingFace);
  top.only_text(same("model_type"), "deepseek_v41");
  THIMBLE_TRY(top.result());
  if (const Json* text = THIMBLE_TRY(section(root, "text_config"))) {
    return parse_nested(root, *text);
  }
  if (root.find("dim") != nullptr) return parse_flat(root);
  return fail(ErrorCode::kUnsupported,
              "neither text_config (Hugging Face layout) nor dim (flat layout) is there; this is "
              "no deepseek_v41 configuration");
}

}  // namespace

Result<Config> parse_config(std::string_view json) {
  if (json.size() > kMaxConfigBytes) {
    return fail(ErrorCode::kCorrupt, "the configuration has {} bytes; at most {} are accepted",
                json.size(), kMaxConfigBytes);
  }
  const Json root = THIMBLE_TRY(parse_json(json));
  Config config = THIMBLE_TRY(parse_unvalidated(root));
  THIMBLE_TRY(validate(config));
  return config;
}

Result<Config> load_config(const Path& file) {
  const std::string text = THIMBLE_TRY(base::read_file(file, kMaxConfigBytes));
  return base::in(parse_config(text), file.string());
}

}  // namespace thimble::arch
