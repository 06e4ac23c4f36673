// Aim: a configuration is read exactly or refused with the key's name. Method: the released values
// against the specification's text, both spellings against each other, and one edit at a time of a
// valid document.
#include "arch/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"

namespace thimble::arch {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::SizeIs;

json valid() { return json::parse(golden::text("t3_everything/model/config.json")); }

std::string error_of(const std::string& text) {
  const auto config = parse_config(text);
  return config ? "accepted" : config.error().describe();
}

// The message after setting text_config[key], with other edits already made to `document`.
std::string error_with(const char* key, const json& value, json document = valid()) {
  document["text_config"][key] = value;
  return error_of(document.dump());
}

TEST(Config, ReleasedRoundTripsThroughJson) {
  const auto again = parse_config(to_json(released_config()));
  ASSERT_TRUE(again) << again.error().describe();
  EXPECT_EQ(*again, released_config());
}

TEST(Config, GoldenConfigsParseAndRoundTrip) {
  for (const char* name : {"t1_mini/model/config.json", "t2_text_minimal/model/config.json",
                           "t3_everything/model/config.json", "wide/config.json"}) {
    const auto config = load_config(golden::path(name));
    ASSERT_TRUE(config) << config.error().describe();
    const auto again = parse_config(to_json(*config));
    ASSERT_TRUE(again) << again.error().describe();
    EXPECT_EQ(*again, *config) << name;
  }
}

TEST(Config, ReadsWhatTheDocumentSays) {
  const auto c = load_config(golden::path("t3_everything/model/config.json"));
  ASSERT_TRUE(c);
  EXPECT_EQ(c->hidden_size, 96u);
  EXPECT_EQ(c->num_hidden_layers, 10u);
  EXPECT_EQ(c->compress_ratios.size(), 13u);
  EXPECT_EQ(c->yarn, (YarnScaling{4, 8, 1, 64}));
  EXPECT_EQ(c->engram.num_embeddings, (std::vector<uint64_t>{434, 606}));
  EXPECT_EQ(c->engram.width(), 3u * 2 * 32);
  EXPECT_EQ(c->draft.target_layer_ids, (std::vector<uint32_t>{7, 8, 9}));
  EXPECT_EQ(c->vision->min_pixels, 144u);
  EXPECT_FALSE(c->vision->max_wh_ratio);
  EXPECT_EQ(c->candidate_source_layer_id, 6u);
  EXPECT_EQ(c->rms_norm_eps, 1e-20);
}

// The reference's own file is flat, spells some keys differently and says nothing of the container.
TEST(Config, FlatSpellingMeansTheSame) {
  const json flat = {{"vocab_size", 129280},
                     {"dim", 5120},
                     {"moe_inter_dim", 2304},
                     {"n_layers", 40},
                     {"n_mtp_layers", 3},
                     {"n_heads", 64},
                     {"n_routed_experts", 384},
                     {"n_shared_experts", 1},
                     {"n_activated_experts", 6},
                     {"score_func", "sqrtsoftplus"},
                     {"route_scale", 1.5},
                     {"swiglu_limit", 10.0},
                     {"q_lora_rank", 1280},
                     {"head_dim", 512},
                     {"rope_head_dim", 64},
                     {"norm_eps", 1e-20},
                     {"o_groups", 8},
                     {"o_lora_rank", 1024},
                     {"window_size", 128},
                     {"original_seq_len", 65536},
                     {"rope_theta", 10000.0},
                     {"rope_factor", 16},
                     {"beta_fast", 32},
                     {"beta_slow", 1},
                     {"compress_rope_theta", 160000.0},
                     {"compress_ratios", released_config().compress_ratios},
                     {"kv_source_layers", {2, 8, 14, 20}},
                     {"index_source_layers", {2, 8, 14, 20, 24, 28, 32, 36}},
                     {"index_n_heads", 32},
                     {"index_head_dim", 128},
                     {"index_topk", 512},
                     {"candidate_source_layer", 20},
                     {"candidate_topk_blocks", 2048},
                     {"candidate_block_size", 8},
                     {"hc_mult", 4},
                     {"hc_sinkhorn_iters", 20},
                     {"hc_eps", 1e-6},
                     {"engram_layer_ids", {1, 14}},
                     {"engram_num_embeddings", {384006168, 384016682}},
                     {"engram_max_ngram_size", 4},
                     {"engram_vocab_size", 16000000},
                     {"engram_n_heads", 8},
                     {"engram_head_dim", 256},
                     {"engram_pad_id", 2},
                     {"engram_compressed_vocab_size", 99092},
                     {"dspark_block_size", 5},
                     {"dspark_noise_token_id", 128799},
                     {"dspark_target_layer_ids", {37, 38, 39}},
                     {"dspark_markov_rank", 256},
                     {"dspark_n_routed_experts", 128},
                     {"dspark_n_activated_experts", 3},
                     {"vision_n_layers", 32},
                     {"vision_dim", 1024},
                     {"vision_n_heads", 16},
                     {"vision_inter_dim", 2816},
                     {"vision_patch_size", 14},
                     {"vision_rope_theta", 10000},
                     {"vision_downsample_ratio", 3},
                     {"vision_max_n_token", 1024},
                     {"vision_min_pixels", 295936},
                     {"vision_max_wh_ratio", nullptr},
                     {"image_token_id", 129264}};
  const auto config = parse_config(flat.dump());
  ASSERT_TRUE(config) << config.error().describe();
  EXPECT_EQ(*config, released_config());
  json wrong = flat;
  wrong["dim"] = "wide";
  EXPECT_THAT(error_of(wrong.dump()), HasSubstr("dim is \"wide\""));
}

TEST(Config, FlatLengthIsSaidOrFollowsFromYarn) {
  json flat = json::parse(to_json(released_config()))["text_config"];
  // Enough of the flat names for a text model; the others are the same in both.
  for (const auto& [hf, name] :
       std::map<std::string, std::string>{{"hidden_size", "dim"},
                                          {"moe_intermediate_size", "moe_inter_dim"},
                                          {"num_hidden_layers", "n_layers"},
                                          {"num_attention_heads", "n_heads"},
                                          {"qk_rope_head_dim", "rope_head_dim"},
                                          {"rms_norm_eps", "norm_eps"},
                                          {"num_experts_per_tok", "n_activated_experts"},
                                          {"routed_scaling_factor", "route_scale"},
                                          {"sliding_window", "window_size"},
                                          {"kv_source_layer_ids", "kv_source_layers"},
                                          {"index_source_layer_ids", "index_source_layers"}}) {
    flat[name] = flat[hf];
  }
  flat["engram_layer_ids"] = json::array();
  flat.erase("model_type");
  flat["compress_ratios"].erase(40);
  flat["compress_ratios"].erase(40);
  flat["compress_ratios"].erase(40);
  flat.erase("max_position_embeddings");
  EXPECT_THAT(error_of(flat.dump()), HasSubstr("max_seq_len is missing"));
  flat["max_seq_len"] = 5000;
  EXPECT_EQ(parse_config(flat.dump())->max_position_embeddings, 5000u);
  EXPECT_EQ(parse_config(flat.dump())->yarn, YarnScaling{});
}

// Found by fuzzing: a scaling without a length is none, and huge numbers are written as they are.
TEST(Config, OddNumbersSurviveARoundTrip) {
  json document = valid();
  document["text_config"]["rope_scaling"]["original_max_position_embeddings"] = 0;
  document["text_config"]["swiglu_limit"] = 18446744073709551615ULL;
  const auto config = parse_config(document.dump());
  ASSERT_TRUE(config) << config.error().describe();
  EXPECT_EQ(config->yarn, YarnScaling{});
  EXPECT_EQ(*parse_config(to_json(*config)), *config);
  EXPECT_THAT(error_with("max_position_embeddings", 0), HasSubstr("max_position_embeddings is 0"));
}

TEST(Config, NamesMissingAndMistypedKeys) {
  json document = valid();
  document["text_config"].erase("q_lora_rank");
  EXPECT_THAT(error_of(document.dump()), HasSubstr("text_config.q_lora_rank is missing"));
  EXPECT_THAT(error_with("hidden_size", "96"), HasSubstr("text_config.hidden_size is \"96\""));
  EXPECT_THAT(error_with("hidden_size", -96), HasSubstr("hidden_size is -96"));
  EXPECT_THAT(error_with("hidden_size", 96.5), HasSubstr("hidden_size is 96.5"));
  EXPECT_THAT(error_with("hidden_size", 1ULL << 40), HasSubstr("hidden_size is 1099511627776"));
  EXPECT_THAT(error_with("hidden_size", nullptr), HasSubstr("hidden_size is missing"));
  EXPECT_THAT(error_with("swiglu_limit", -1), HasSubstr("swiglu_limit is -1"));
  EXPECT_THAT(error_with("compress_ratios", {0, 0, 3}), HasSubstr("compress_ratios[2] is 3"));
  EXPECT_THAT(error_with("kv_source_layer_ids", 2), HasSubstr("kv_source_layer_ids is 2"));
}

TEST(Config, RefusesDuplicatesDepthAndNonsense) {
  std::string text = valid().dump();
  text.insert(1, "\"model_type\": \"deepseek_v41\",");
  EXPECT_THAT(error_of(text), HasSubstr("\"model_type\" appears twice"));
  EXPECT_THAT(error_of(std::string(100, '[')), HasSubstr("JSON"));
  EXPECT_THAT(error_of("{\"text_config\": 3}"), HasSubstr("text_config is 3; expected an object"));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("{\"hidden_size\": 4096}"), HasSubstr("no deepseek_v41 configuration"));
}

// The exact parser refuses these as a whole; the key is named all the same.
TEST(Config, NamesTheKeyOfANumberBeyond64Bits) {
  const auto with = [](std::string_view value, std::string_view place) {
    std::string text = valid().dump();
    text.replace(text.find(place), place.size(), value);
    return error_of(text);
  };
  EXPECT_THAT(with("\"hidden_size\":99999999999999999999", "\"hidden_size\":96"),
              HasSubstr("text_config.hidden_size is 99999999999999999999; expected a number"));
  EXPECT_THAT(with("\"hidden_size\":-9223372036854775809", "\"hidden_size\":96"),
              HasSubstr("text_config.hidden_size is -9223372036854775809"));
  EXPECT_THAT(with("\"swiglu_limit\":1e999", "\"swiglu_limit\":1.5"),
              HasSubstr("text_config.swiglu_limit is 1e999"));
  EXPECT_THAT(with("[434,18446744073709551616]", "[434,606]"),
              HasSubstr("text_config.engram_num_embeddings[1] is 18446744073709551616"));
  EXPECT_THAT(with("\"hidden_size\":" + std::string(5000, '9'), "\"hidden_size\":96"),
              AllOf(HasSubstr("text_config.hidden_size is 999"), SizeIs(Lt(200u))));
  EXPECT_THAT(error_of("{\"dim\": 123456789012345678901234567890}"), HasSubstr("dim is 1234567"));
  EXPECT_THAT(error_of("99999999999999999999"), HasSubstr("the document is 9999"));
  EXPECT_THAT(error_of("{\"dim\": 01}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("[[1], 01" + std::string(100'000, '[')), HasSubstr("not valid JSON"));
}

// Every real number of a configuration, in a document and in one that no parser has seen.
TEST(Config, BoundsRealNumbers) {
  for (const char* key : {"rms_norm_eps", "hc_eps", "swiglu_limit", "routed_scaling_factor",
                          "rope_theta", "compress_rope_theta"}) {
    for (const double value : {0.0, -1.0, 1e31}) {
      EXPECT_THAT(error_with(key, value), HasSubstr(std::string(key) + " is ")) << value;
    }
  }
  EXPECT_THAT(error_with("rms_norm_eps", 1), HasSubstr("rms_norm_eps is 1"));
  EXPECT_THAT(error_with("rope_theta", 1), HasSubstr("rope_theta is 1"));
  for (const char* key : {"factor", "beta_fast", "beta_slow"}) {
    for (const double value : {0.0, -1.0, 1e7}) {
      json document = valid();
      document["text_config"]["rope_scaling"][key] = value;
      EXPECT_THAT(error_of(document.dump()), HasSubstr(std::string(key) + " is ")) << value;
    }
  }
  for (const char* key : {"rope_theta", "max_wh_ratio"}) {
    json document = valid();
    document["vision_config"][key] = 0.5;
    EXPECT_THAT(error_of(document.dump()), HasSubstr(std::string(key) + " is 0.5"));
  }
}

TEST(Config, ValidateRefusesWhatIsNoNumber) {
  const Config good = *load_config(golden::path("t3_everything/model/config.json"));
  ASSERT_TRUE(validate(good));
  const std::pair<const char*, std::function<double&(Config&)>> fields[] = {
      {"rms_norm_eps", [](Config& c) -> double& { return c.rms_norm_eps; }},
      {"hc_eps", [](Config& c) -> double& { return c.hc_eps; }},
      {"swiglu_limit", [](Config& c) -> double& { return c.swiglu_limit; }},
      {"routed_scaling_factor", [](Config& c) -> double& { return c.routed_scaling_factor; }},
      {"rope_theta", [](Config& c) -> double& { return c.rope_theta; }},
      {"compress_rope_theta", [](Config& c) -> double& { return c.compress_rope_theta; }},
      {"factor", [](Config& c) -> double& { return c.yarn.factor; }},
      {"beta_fast", [](Config& c) -> double& { return c.yarn.beta_fast; }},
      {"beta_slow", [](Config& c) -> double& { return c.yarn.beta_slow; }},
      {"rope_theta", [](Config& c) -> double& { return c.vision->rope_theta; }},
      {"max_wh_ratio", [](Config& c) -> double& { return c.vision->max_wh_ratio.emplace(); }}};
  for (const auto& [key, field] : fields) {
    for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.0}) {
      Config config = good;
      field(config) = value;
      const auto result = validate(config);
      ASSERT_FALSE(result) << key << " " << value;
      EXPECT_THAT(result.error().describe(), HasSubstr(std::string(key) + " is ")) << value;
    }
  }
}

TEST(Config, RefusesOtherModelsByKey) {
  json document = valid();
  document["model_type"] = "llama";
  EXPECT_THAT(error_of(document.dump()), HasSubstr("model_type is \"llama\""));
  const std::pair<const char*, json> settings[] = {{"hidden_act", "gelu"},
                                                   {"scoring_func", "softmax"},
                                                   {"topk_method", "greedy"},
                                                   {"norm_topk_prob", false},
                                                   {"tie_word_embeddings", true},
                                                   {"attention_bias", true},
                                                   {"num_key_value_heads", 4},
                                                   {"n_shared_experts", 2},
                                                   {"first_k_dense_replace", 3},
                                                   {"num_hash_layers", 1},
                                                   {"n_group", 8},
                                                   {"gate_temp", 0.5},
                                                   {"mscale", 1.0}};
  for (const auto& [key, value] : settings) {
    json edited = valid();
    edited["text_config"][key] = value;
    const auto config = parse_config(edited.dump());
    ASSERT_FALSE(config) << key;
    EXPECT_EQ(config.error().code, ErrorCode::kUnsupported) << key;
    EXPECT_THAT(config.error().describe(), HasSubstr(key));
  }
}

TEST(Config, RefusesOtherQuantisations) {
  const std::pair<const char*, json> settings[] = {{"quant_method", "awq"},
                                                   {"weight_block_size", {128, 128}},
                                                   {"scale_fmt", "fp32"},
                                                   {"expert_dtype", "fp8"}};
  for (const auto& [key, value] : settings) {
    json edited = valid();
    edited["quantization_config"][key] = value;
    const auto config = parse_config(edited.dump());
    ASSERT_FALSE(config) << key;
    EXPECT_EQ(config.error().code, ErrorCode::kUnsupported) << key;
    EXPECT_THAT(config.error().describe(), HasSubstr(key));
  }
  json edited = valid();
  edited.erase("quantization_config");
  EXPECT_THAT(error_of(edited.dump()), HasSubstr("quantization_config is missing"));
}

TEST(Config, CrossChecksLayers) {
  const json ratios = {0, 0, 2, 2, 2, 2, 1, 1, 1, 1};
  EXPECT_THAT(error_with("compress_ratios", ratios), HasSubstr("compress_ratios has 10 entries"));
  EXPECT_THAT(error_with("compress_ratios", {0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 0, 1, 0}),
              HasSubstr("compress_ratios[11] is 1; expected 0 for a draft layer"));
  EXPECT_THAT(error_with("compress_ratios", {0, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0}),
              HasSubstr("compress_ratios[1] is 2, but kv_source_layer_ids has no layer"));
  EXPECT_THAT(error_with("compress_ratios", {0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0}),
              HasSubstr("compress_ratios[5] is 1, but its KV source, layer 4"));
  EXPECT_THAT(error_with("kv_source_layer_ids", {4, 2, 6}), HasSubstr("kv_source_layer_ids[1]"));
  EXPECT_THAT(error_with("kv_source_layer_ids", {2, 4, 10}), HasSubstr("kv_source_layer_ids[2]"));
  EXPECT_THAT(error_with("kv_source_layer_ids", {1, 2, 4, 6}), HasSubstr("kv_source_layer_ids[0]"));
  EXPECT_THAT(error_with("index_source_layer_ids", {2, 6, 8}),
              HasSubstr("kv_source_layer_ids has layer 4"));
  EXPECT_THAT(error_with("candidate_source_layer_id", 8),
              HasSubstr("candidate_source_layer_id is 8"));
  EXPECT_THAT(error_with("candidate_topk_blocks", 1),
              HasSubstr("candidate_topk_blocks * candidate_block_size is 4"));
}

TEST(Config, CrossChecksGroups) {
  EXPECT_THAT(error_with("hidden_size", 100), HasSubstr("hidden_size is 100"));
  EXPECT_THAT(error_with("q_lora_rank", 48), HasSubstr("q_lora_rank is 48"));
  EXPECT_THAT(error_with("moe_intermediate_size", 40), HasSubstr("moe_intermediate_size is 40"));
  EXPECT_THAT(error_with("o_lora_rank", 8), HasSubstr("o_groups * o_lora_rank is 16"));
  EXPECT_THAT(error_with("head_dim", 40), HasSubstr("head_dim is 40"));
  EXPECT_THAT(error_with("index_head_dim", 48), HasSubstr("index_head_dim is 48"));
  EXPECT_THAT(error_with("qk_rope_head_dim", 15), HasSubstr("qk_rope_head_dim is 15"));
  EXPECT_THAT(error_with("qk_rope_head_dim", 66), HasSubstr("at most head_dim, 64"));
  EXPECT_THAT(error_with("qk_rope_head_dim", 34), HasSubstr("at most index_head_dim, 32"));
  EXPECT_THAT(error_with("o_groups", 3), HasSubstr("num_attention_heads is 4"));
  EXPECT_THAT(error_with("num_experts_per_tok", 9), HasSubstr("num_experts_per_tok is 9"));
  EXPECT_THAT(error_with("n_routed_experts", 65536), HasSubstr("experts"));
  EXPECT_THAT(error_with("engram_head_dim", 24), HasSubstr("engram_head_dim is 24"));
}

// F08: a table that cannot hold its lookups is named, with the rows it would need.
TEST(Config, CrossChecksEngramRows) {
  EXPECT_THAT(error_with("engram_num_embeddings", {434, 605}),
              HasSubstr("engram_num_embeddings[1] is 605; layer 4 addresses 606 rows"));
  EXPECT_THAT(error_with("engram_num_embeddings", {434}), HasSubstr("has 1 entries; expected 2"));
  EXPECT_THAT(error_with("engram_vocab_size", 101), HasSubstr("engram_num_embeddings[0] is 434"));
  EXPECT_THAT(error_with("engram_layer_ids", {4, 1}), HasSubstr("engram_layer_ids[1] is 1"));
  EXPECT_EQ(error_with("engram_num_embeddings", {500, 700}), "accepted");
  // As many lookups as the ranges allow would take minutes of primes before anything is refused.
  Config many = *load_config(golden::path("t1_mini/model/config.json"));
  many.num_hidden_layers = 1000;
  many.compress_ratios.resize(1000, 1);
  many.engram.n_heads = 64;
  many.engram.max_ngram_size = 16;
  many.engram.layer_ids.clear();
  for (uint32_t layer = 0; layer < 1000; ++layer) many.engram.layer_ids.push_back(layer);
  many.engram.num_embeddings.assign(1000, 1'000'000);
  EXPECT_THAT(validate(many).error().describe(), HasSubstr("make 960000 lookups"));
}

TEST(Config, CrossChecksDraftVisionAndTokens) {
  EXPECT_THAT(error_with("dspark_noise_token_id", 448), HasSubstr("dspark_noise_token_id is 448"));
  EXPECT_THAT(error_with("dspark_target_layer_ids", json::array()), HasSubstr("is empty"));
  EXPECT_THAT(error_with("dspark_target_layer_ids", {10}), HasSubstr("target_layer_ids[0] is 10"));
  json document = valid();
  document["vision_config"]["num_attention_heads"] = 5;
  EXPECT_THAT(error_of(document.dump()), HasSubstr("num_attention_heads"));
  document = valid();
  document["eos_token_id"] = 448;
  EXPECT_THAT(error_of(document.dump()), HasSubstr("eos_token_id is 448"));
  document = valid();
  document.erase("image_token_id");
  EXPECT_THAT(error_of(document.dump()), HasSubstr("image_token_id is missing"));
}

TEST(Config, PartsAreOptional) {
  json document = valid();
  auto& text = document["text_config"];
  document.erase("vision_config");
  document.erase("image_token_id");
  for (const char* key : {"engram_layer_ids", "engram_num_embeddings", "num_nextn_predict_layers",
                          "candidate_source_layer_id", "candidate_topk_blocks"}) {
    text.erase(key);
  }
  text["compress_ratios"] = {0, 0, 2, 2, 2, 2, 1, 1, 1, 1};
  const auto config = parse_config(document.dump());
  ASSERT_TRUE(config) << config.error().describe();
  EXPECT_EQ(config->engram.lookups(), 0u);
  EXPECT_EQ(config->draft.num_layers, 0u);
  EXPECT_FALSE(config->vision);
  EXPECT_FALSE(config->candidate_source_layer_id);
}

}  // namespace
}  // namespace thimble::arch
