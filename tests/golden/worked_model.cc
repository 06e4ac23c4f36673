#include "tests/golden/worked_model.h"

#include "arch/config.h"
#include "arch/safetensors.h"
#include "arch/weight_table.h"
#include "base/check.h"
#include "base/random.h"
#include "numeric/bf16.h"

namespace thimble::golden {
namespace {

uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::string_view part : {std::string_view("431/"), name}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

arch::Config worked_config() {
  arch::Config c;
  c.vocab_size = 64;
  c.hidden_size = 64;
  c.moe_intermediate_size = 64;
  c.num_hidden_layers = 8;
  c.num_attention_heads = 4;
  c.head_dim = 64;
  c.qk_rope_head_dim = 16;
  c.q_lora_rank = 32;
  c.o_groups = 2;
  c.o_lora_rank = 32;
  c.sliding_window = 8;
  c.compress_ratios = {0, 0, 2, 2, 2, 1, 1, 1};
  c.kv_source_layer_ids = {2, 3, 5};
  c.index_source_layer_ids = {2, 3, 5, 6};
  c.candidate_source_layer_id = 5;
  c.candidate_topk_blocks = 3;
  c.candidate_block_size = 2;
  c.index_topk = 4;
  c.index_n_heads = 8;
  c.index_head_dim = 32;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.n_routed_experts = 8;
  c.num_experts_per_tok = 2;
  c.routed_scaling_factor = 1.5;
  c.swiglu_limit = 1.0;
  c.rope_theta = 100;
  c.compress_rope_theta = 400;
  c.yarn = {4, 32, 1, 16};
  c.max_position_embeddings = 64;
  c.eos_token_id = 1;
  c.pad_token_id = 2;
  return c;
}

bool ends(std::string_view name, std::string_view tail) { return name.ends_with(tail); }

// value = offset + factor * u of a float tensor.
struct Rule {
  float offset = 0;
  float factor = 1;
};

Rule float_rule(std::string_view name) {
  if (name == "embed.weight") return {0, 1.0F};
  if (name == "head.weight") return {0, 0.25F};
  if (ends(name, "norm.weight")) return {1, 0.25F};
  if (ends(name, "_fn")) return {0, 0.1F};
  if (ends(name, "_base")) return {0, 0.5F};
  if (ends(name, "_scale")) return {0.75F, 0.25F};
  if (ends(name, "attn_sink")) return {0, 1.0F};
  if (ends(name, "gate.bias")) return {0, 0.1F};
  return {0, 0.2F};  // compressor, indexer.wk, weights_proj, gate.weight
}

uint64_t scale_base(std::string_view name) {
  const bool routed = name.find("ffn.experts.") != std::string_view::npos;
  if (routed) return ends(name, "w2.scale") ? 119 : 121;
  if (name.find("shared_experts") != std::string_view::npos) {
    return ends(name, "w2.scale") ? 114 : 116;
  }
  return ends(name, "wo_a.scale") || ends(name, "wo_b.scale") ? 115 : 116;
}

std::string tensor_bytes(const arch::ExpectedTensor& tensor) {
  std::string out(tensor.bytes(), '\0');
  const uint64_t size = arch::element_bytes(tensor.dtype);
  const Rule rule = float_rule(tensor.name);
  for (uint64_t i = 0; i < out.size() / size; ++i) {
    const uint64_t z = worked_word(tensor.name, i);
    const float u = static_cast<float>(z >> 40) / 8388608.0F - 1.0F;
    const float value = rule.offset + rule.factor * u;
    const uint16_t half = numeric::float_to_bf16(value);
    auto byte = static_cast<uint8_t>(z >> 56);
    switch (tensor.dtype) {
      case arch::DType::kF32:
        std::memcpy(&out[i * 4], &value, 4);
        break;
      case arch::DType::kBF16:
        std::memcpy(&out[i * 2], &half, 2);
        break;
      case arch::DType::kF8E8M0:
        out[i] = static_cast<char>(scale_base(tensor.name) + (z >> 32) % 3);
        break;
      case arch::DType::kF8E4M3:
        if ((byte & 0x78) == 0x78) byte ^= 0x08;
        [[fallthrough]];
      default:
        out[i] = static_cast<char>(byte);
    }
  }
  return out;
}

}  // namespace

uint64_t worked_word(std::string_view name, uint64_t i) {
  return base::mix64(name_hash(name) + (i + 1) * 0x9E3779B97F4A7C15ULL);
}

std::vector<int32_t> worked_prompt() {
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < 15; ++i) {
    ids.push_back(static_cast<int32_t>((worked_word("prompt", i) >> 33) % 64));
  }
  return ids;
}

void write_worked_model(const Path& directory) {
  const arch::Config config = worked_config();
  std::vector<std::string> storage;
  std::vector<arch::TensorToWrite> tensors;
  const auto table = arch::expected_tensors(config);
  storage.reserve(table.size());
  for (const arch::ExpectedTensor& expected : table) {
    if (expected.optional) continue;
    storage.push_back(tensor_bytes(expected));
    tensors.push_back(
        {expected.name, expected.dtype, expected.shape, std::as_bytes(std::span(storage.back()))});
  }
  CHECK(base::write_file_atomic(directory / "config.json", arch::to_json(config)).has_value());
  CHECK(arch::write_safetensors(directory / "model.safetensors", tensors).has_value());
}

}  // namespace thimble::golden
