#include <cmath>
#include <nlohmann/json.hpp>

#include "arch/config.h"
#include "arch/internal/config_fields.h"

namespace thimble::arch {
namespace {

using Json = nlohmann::ordered_json;

// Visitor: values under their Hugging Face names.
struct FieldWriter {
  Json& out;

  template <class T>
  void field(Key key, const T& value, IntRange) {
    out[key.hf] = value;
  }
  // Whole numbers without a fraction, as the published file writes its thetas.
  void field(Key key, double value, RealRange) {
    if (value == std::floor(value) && value >= 1000 && value <= 1e15) {
      out[key.hf] = static_cast<int64_t>(value);
    } else {
      out[key.hf] = value;
    }
  }
};

Json text_json(const Config& c) {
  Json text = {{"model_type", "deepseek_v41_text"}};
  FieldWriter writer{text};
  visit_backbone(c, writer);
  text["num_key_value_heads"] = 1;
  text["hidden_act"] = "silu";
  text["attention_bias"] = false;
  text["attention_dropout"] = 0.0;
  text["initializer_range"] = 0.02;
  text["use_cache"] = true;
  text["tie_word_embeddings"] = false;
  text["max_position_embeddings"] = c.max_position_embeddings;
  if (c.yarn.original_max_position_embeddings > 0) {
    Json scaling = {{"rope_type", "yarn"}};
    visit_yarn(c.yarn, FieldWriter{scaling});
    text["rope_scaling"] = scaling;
  }
  text["n_shared_experts"] = c.n_shared_experts;
  text["scoring_func"] = "sqrtsoftplus";
  text["topk_method"] = "noaux_tc";
  text["norm_topk_prob"] = true;
  if (c.has_global_cache()) visit_global_cache(c, writer);
  if (c.candidate_source_layer_id) {
    text["candidate_source_layer_id"] = *c.candidate_source_layer_id;
    visit_candidates(c, writer);
  }
  text["engram_layer_ids"] = c.engram.layer_ids;
  if (!c.engram.layer_ids.empty()) visit_engram(c.engram, writer);
  text["num_nextn_predict_layers"] = c.draft.num_layers;
  if (c.draft.num_layers > 0) visit_draft(c.draft, writer);
  return text;
}

Json vision_json(const VisionConfig& v) {
  Json vision = {{"model_type", "deepseek_v41_vision"}};
  FieldWriter writer{vision};
  visit_vision(v, writer);
  vision["max_wh_ratio"] = v.max_wh_ratio ? Json(*v.max_wh_ratio) : Json(nullptr);
  return vision;
}

}  // namespace

std::string to_json(const Config& c) {
  Json root = {{"architectures", {"DeepseekV41ForCausalLM"}},
               {"model_type", "deepseek_v41"},
               {"dtype", "bfloat16"},
               {"transformers_version", "5.6.0"},
               {"bos_token_id", c.bos_token_id},
               {"eos_token_id", c.eos_token_id},
               {"pad_token_id", c.pad_token_id}};
  if (c.image_token_id) root["image_token_id"] = *c.image_token_id;
  root["quantization_config"] = {{"quant_method", "fp8"},
                                 {"activation_scheme", "dynamic"},
                                 {"weight_block_size", {32, 32}},
                                 {"scale_fmt", "ue8m0"},
                                 {"expert_dtype", "fp4"}};
  root["text_config"] = text_json(c);
  if (c.vision) root["vision_config"] = vision_json(*c.vision);
  return root.dump(2) + "\n";
}

}  // namespace thimble::arch
