#include "arch/weight_table.h"

#include <functional>
#include <numeric>

#include "arch/layer_plan.h"
#include "numeric/packed_layout.h"

namespace thimble::arch {
namespace {

constexpr uint64_t kTile = 32;  // of dense FP8 weights, both ways, and of FP4 groups

// Appends tensors under a name prefix that each scope extends.
class TableBuilder {
 public:
  explicit TableBuilder(std::vector<ExpectedTensor>& out) : out_(out) {}

  void prefix(std::string prefix) { prefix_ = std::move(prefix); }
  void part(WeightPart part) { part_ = part; }

  void add(std::string_view suffix, DType dtype, std::vector<uint64_t> shape) {
    out_.push_back({prefix_ + std::string(suffix), dtype, std::move(shape), part_, false});
  }
  void add_optional(std::string_view suffix, DType dtype, std::vector<uint64_t> shape) {
    add(suffix, dtype, std::move(shape));
    out_.back().optional = true;
  }
  // E4M3 weight [n, k] and one E8M0 scale for each 32x32 tile.
  void add_fp8(const std::string& name, uint64_t n, uint64_t k) {
    add(name + ".weight", DType::kF8E4M3, {n, k});
    add(name + ".scale", DType::kF8E8M0, {base::div_ceil(n, kTile), k / kTile});
  }
  // E2M1 weight [n, k], two codes a byte, and one E8M0 scale for each 32 inputs of a row.
  void add_fp4(const std::string& name, uint64_t n, uint64_t k) {
    add(name + ".weight", DType::kI8, {n, k / 2});
    add(name + ".scale", DType::kF8E8M0, {n, k / kTile});
  }

 private:
  std::vector<ExpectedTensor>& out_;
  std::string prefix_;
  WeightPart part_ = WeightPart::kBackboneOther;
};

void add_globals(const Config& c, TableBuilder& t) {
  t.prefix("");
  t.part(WeightPart::kEmbedding);
  t.add("embed.weight", DType::kBF16, {c.vocab_size, c.hidden_size});
  t.part(WeightPart::kBackboneOther);
  t.add("norm.weight", DType::kBF16, {c.hidden_size});
  t.part(WeightPart::kEmbedding);
  t.add("head.weight", DType::kBF16, {c.vocab_size, c.hidden_size});
}

void add_attention(const Config& c, TableBuilder& t) {
  const uint64_t heads_width = uint64_t{c.num_attention_heads} * c.head_dim;
  const uint64_t output_width = uint64_t{c.o_groups} * c.o_lora_rank;
  t.add_fp8("attn.wq_a", c.q_lora_rank, c.hidden_size);
  t.add("attn.q_norm.weight", DType::kBF16, {c.q_lora_rank});
  t.add_fp8("attn.wq_b", heads_width, c.q_lora_rank);
  t.add_fp8("attn.wkv", c.head_dim, c.hidden_size);
  t.add("attn.kv_norm.weight", DType::kBF16, {c.head_dim});
  t.add("attn.attn_sink", DType::kF32, {c.num_attention_heads});
  t.add_fp8("attn.wo_a", output_width, heads_width / c.o_groups);
  t.add_fp8("attn.wo_b", c.hidden_size, output_width);
}

// What a layer adds for its role: KV sources compress, index sources select.
void add_global_cache(const Config& c, const LayerRole& role, TableBuilder& t) {
  if (role.mode == AttentionMode::kFull) {
    t.add("attn.compressor.wkv.weight", DType::kBF16, {c.head_dim, c.hidden_size});
    if (role.ratio > 1) {
      t.add("attn.compressor.wgate.weight", DType::kBF16, {c.head_dim, c.hidden_size});
    }
    t.add("attn.compressor.norm.weight", DType::kBF16, {c.head_dim});
    t.add("attn.indexer.wk.weight", DType::kBF16, {c.index_head_dim, c.head_dim});
    t.add("attn.indexer.k_norm.weight", DType::kBF16, {c.index_head_dim});
  }
  if (role.selects()) {
    t.add_fp8("attn.indexer.wq_b", uint64_t{c.index_n_heads} * c.index_head_dim, c.q_lora_rank);
    t.add("attn.indexer.weights_proj.weight", DType::kBF16, {c.index_n_heads, c.hidden_size});
  }
}

void add_norms_and_mhc(const Config& c, TableBuilder& t) {
  const uint64_t streams = c.hc_mult;
  const uint64_t mixes = (2 + streams) * streams;  // pre, post, comb
  t.add("attn_norm.weight", DType::kBF16, {c.hidden_size});
  t.add("ffn_norm.weight", DType::kBF16, {c.hidden_size});
  for (const char* sublayer : {"hc_attn_", "hc_ffn_"}) {
    const std::string name = sublayer;
    t.add(name + "fn", DType::kF32, {mixes, streams * c.hidden_size});
    t.add(name + "base", DType::kF32, {mixes});
    t.add(name + "scale", DType::kF32, {3});
  }
}

void add_gate_and_shared(const Config& c, uint64_t experts, TableBuilder& t) {
  t.add("ffn.gate.weight", DType::kBF16, {experts, c.hidden_size});
  t.add("ffn.gate.bias", DType::kF32, {experts});
  if (c.vision) {
    t.add("ffn.gate.bias_vl", DType::kF32, {experts});
  } else {
    t.add_optional("ffn.gate.bias_vl", DType::kF32, {experts});
  }
  t.add_fp8("ffn.shared_experts.w1", c.moe_intermediate_size, c.hidden_size);
  t.add_fp8("ffn.shared_experts.w3", c.moe_intermediate_size, c.hidden_size);
  t.add_fp8("ffn.shared_experts.w2", c.hidden_size, c.moe_intermediate_size);
}

void add_experts(const Config& c, uint64_t experts, TableBuilder& t) {
  t.part(WeightPart::kExperts);
  for (uint64_t e = 0; e < experts; ++e) {
    const std::string name = fmt::format("ffn.experts.{}.", e);
    t.add_fp4(name + "w1", c.moe_intermediate_size, c.hidden_size);
    t.add_fp4(name + "w3", c.moe_intermediate_size, c.hidden_size);
    t.add_fp4(name + "w2", c.hidden_size, c.moe_intermediate_size);
  }
}

void add_engram(const Config& c, uint64_t rows, TableBuilder& t) {
  const EngramConfig& e = c.engram;
  t.part(WeightPart::kEngram);
  t.add("engram.embed.weight", DType::kF8E4M3, {rows, e.head_dim});
  t.add("engram.embed.scale", DType::kF8E8M0, {rows, e.head_dim / kTile});
  t.add_fp8("engram.wkv", (c.hc_mult + uint64_t{1}) * c.hidden_size, e.width());
  t.add("engram.q_weight", DType::kBF16, {c.hc_mult, c.hidden_size});
  t.add("engram.k_weight", DType::kBF16, {c.hc_mult, c.hidden_size});
}

void add_layer(const Config& c, const LayerRole& role, TableBuilder& t) {
  t.prefix(fmt::format("layers.{}.", role.layer));
  t.part(WeightPart::kAttention);
  add_attention(c, t);
  add_global_cache(c, role, t);
  t.part(WeightPart::kBackboneOther);
  add_norms_and_mhc(c, t);
  add_gate_and_shared(c, c.n_routed_experts, t);
  if (role.engram) add_engram(c, c.engram.num_embeddings[*role.engram], t);
  add_experts(c, c.n_routed_experts, t);
}

void add_draft_layer(const Config& c, uint32_t stage, TableBuilder& t) {
  const DraftConfig& d = c.draft;
  t.prefix(fmt::format("mtp.{}.", stage));
  t.part(WeightPart::kDraft);
  add_attention(c, t);
  add_norms_and_mhc(c, t);
  add_gate_and_shared(c, d.n_routed_experts, t);
  if (stage == 0) {
    t.add_fp8("main_proj", c.hidden_size, d.target_layer_ids.size() * c.hidden_size);
    t.add("main_norm.weight", DType::kBF16, {c.hidden_size});
  }
  if (stage + 1 == d.num_layers) {
    t.add("norm.weight", DType::kBF16, {c.hidden_size});
    t.add("markov_head.embed.weight", DType::kBF16, {c.vocab_size, d.markov_rank});
    t.add("markov_head.head.weight", DType::kBF16, {c.vocab_size, d.markov_rank});
    t.add("confidence_head.proj.weight", DType::kBF16,
          {1, uint64_t{c.hidden_size} + d.markov_rank});
  }
  add_experts(c, d.n_routed_experts, t);
}

void add_vision(const Config& c, const VisionConfig& v, TableBuilder& t) {
  const uint64_t width = v.hidden_size;
  const uint64_t inner = v.intermediate_size;
  const auto linear = [&t](const std::string& name, uint64_t n, uint64_t k) {
    t.add(name + ".weight", DType::kBF16, {n, k});
    t.add(name + ".bias", DType::kBF16, {n});
  };
  t.part(WeightPart::kVision);
  t.prefix("vision.");
  linear("patch_embed.proj", width, uint64_t{3} * v.patch_size * v.patch_size);
  for (uint32_t block = 0; block < v.num_hidden_layers; ++block) {
    t.prefix(fmt::format("vision.blocks.{}.", block));
    t.add("norm1.weight", DType::kBF16, {width});
    t.add("norm2.weight", DType::kBF16, {width});
    linear("attn.wqkv", 3 * width, width);
    linear("attn.wo", width, width);
    t.add("mlp.w1.weight", DType::kBF16, {2 * inner, width});
    t.add("mlp.w2.weight", DType::kBF16, {width, inner});
  }
  t.prefix("");
  t.add("vision.norm.weight", DType::kBF16, {width});
  linear("aligner.w1", c.hidden_size, width * v.downsample_ratio * v.downsample_ratio);
  linear("aligner.w2", c.hidden_size, c.hidden_size);
  for (const char* name : {"image_start", "image_end", "image_newline"}) {
    t.add(name, DType::kBF16, {c.hidden_size});
  }
}

}  // namespace

const char* to_string(WeightPart part) {
  switch (part) {
    case WeightPart::kExperts:
      return "experts";
    case WeightPart::kEngram:
      return "engram";
    case WeightPart::kAttention:
      return "attention";
    case WeightPart::kBackboneOther:
      return "backbone other";
    case WeightPart::kVision:
      return "vision";
    case WeightPart::kDraft:
      return "draft";
    case WeightPart::kEmbedding:
      return "embedding";
  }
  return "?";
}

uint64_t ExpectedTensor::bytes() const {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{element_bytes(dtype)},
                         std::multiplies<>());
}

uint64_t ExpectedTensor::parameters() const {
  switch (dtype) {
    case DType::kF8E8M0:
      return 0;
    case DType::kI8:
      return 2 * bytes();
    default:
      return bytes() / element_bytes(dtype);
  }
}

std::vector<ExpectedTensor> expected_tensors(const Config& config) {
  std::vector<ExpectedTensor> out;
  TableBuilder table(out);
  add_globals(config, table);
  for (const LayerRole& role : make_layer_plan(config).layers) add_layer(config, role, table);
  for (uint32_t stage = 0; stage < config.draft.num_layers; ++stage) {
    add_draft_layer(config, stage, table);
  }
  if (config.vision) add_vision(config, *config.vision, table);
  return out;
}

bool is_backbone(const ExpectedTensor& tensor) {
  return tensor.part != WeightPart::kVision && !tensor.name.starts_with("mtp.");
}

PackedWeightBytes packed_weight_bytes(const Config& config) {
  PackedWeightBytes out;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    const bool fp4 = tensor.dtype == DType::kI8;
    if (!fp4 && tensor.dtype != DType::kF8E4M3) continue;
    if (!is_backbone(tensor) || tensor.name.ends_with("engram.embed.weight")) continue;
    const auto format = fp4 ? numeric::PackedFormat::kFp4 : numeric::PackedFormat::kFp8;
    const uint64_t inputs = tensor.shape[1] * (fp4 ? 2 : 1);
    const uint64_t packed = numeric::packed_bytes(format, tensor.shape[0], inputs);
    const bool expert = tensor.part == WeightPart::kExperts;
    (expert ? out.experts : out.dense) += packed;
    (expert ? out.experts_source : out.dense_source) += tensor.bytes();
  }
  return out;
}

WeightTotals totals(const std::vector<ExpectedTensor>& table) {
  WeightTotals sum;
  for (const ExpectedTensor& tensor : table) {
    if (tensor.optional) continue;
    ++sum.tensors;
    sum.bytes += tensor.bytes();
    sum.parameters += tensor.parameters();
  }
  return sum;
}

}  // namespace thimble::arch
