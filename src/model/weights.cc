#include <fmt/format.h>

#include <string>

#include "base/check.h"
#include "model/internal/weights.h"

namespace thimble::model {
namespace {

using kernels::WeightFormat;

// The matrix `name`.weight, with its scales where the format has them.
WeightView matrix(const arch::Checkpoint& checkpoint, const std::string& name) {
  const arch::TensorView& weight = checkpoint.tensor(name + ".weight");
  CHECK_EQ(weight.shape.size(), 2u);
  WeightView view;
  view.codes = weight.data.data();
  view.rows = static_cast<uint32_t>(weight.shape[0]);
  view.cols = static_cast<uint32_t>(weight.shape[1]);
  switch (weight.dtype) {
    case arch::DType::kF32:
      view.format = WeightFormat::kF32;
      return view;
    case arch::DType::kBF16:
      view.format = WeightFormat::kBF16;
      return view;
    case arch::DType::kF8E4M3:
      view.format = WeightFormat::kFp8Block32;
      break;
    default:
      CHECK(weight.dtype == arch::DType::kI8);
      view.format = WeightFormat::kFp4Group32;
      view.cols *= 2;  // two codes a byte
  }
  view.scales = checkpoint.tensor(name + ".scale").data.data();
  return view;
}

const std::byte* bytes(const arch::Checkpoint& checkpoint, const std::string& name) {
  return checkpoint.tensor(name).data.data();
}

const float* floats(const arch::Checkpoint& checkpoint, const std::string& name) {
  const arch::TensorView& view = checkpoint.tensor(name);
  CHECK(view.dtype == arch::DType::kF32);
  return view.as<float>().data();
}

HcTensors hyper_connection(const arch::Checkpoint& checkpoint, const std::string& prefix) {
  return {floats(checkpoint, prefix + "_fn"), floats(checkpoint, prefix + "_scale"),
          floats(checkpoint, prefix + "_base")};
}

ExpertWeights expert(const arch::Checkpoint& checkpoint, const std::string& prefix) {
  return {matrix(checkpoint, prefix + ".w1"), matrix(checkpoint, prefix + ".w2"),
          matrix(checkpoint, prefix + ".w3")};
}

void resolve_attention(const arch::Checkpoint& checkpoint, const std::string& prefix,
                       const arch::LayerRole& role, LayerWeights& out) {
  out.wq_a = matrix(checkpoint, prefix + "wq_a");
  out.wq_b = matrix(checkpoint, prefix + "wq_b");
  out.wkv = matrix(checkpoint, prefix + "wkv");
  out.wo_a = matrix(checkpoint, prefix + "wo_a");
  out.wo_b = matrix(checkpoint, prefix + "wo_b");
  out.q_norm = bytes(checkpoint, prefix + "q_norm.weight");
  out.kv_norm = bytes(checkpoint, prefix + "kv_norm.weight");
  out.sink = floats(checkpoint, prefix + "attn_sink");
  if (role.mode == arch::AttentionMode::kFull) {
    CompressorWeights& compressor = out.compressor;
    compressor.wkv = matrix(checkpoint, prefix + "compressor.wkv");
    if (role.ratio == 2) compressor.wgate = matrix(checkpoint, prefix + "compressor.wgate");
    compressor.norm = bytes(checkpoint, prefix + "compressor.norm.weight");
    compressor.index_wk = matrix(checkpoint, prefix + "indexer.wk");
    compressor.index_k_norm = bytes(checkpoint, prefix + "indexer.k_norm.weight");
  }
  if (role.selects()) {
    out.index_wq_b = matrix(checkpoint, prefix + "indexer.wq_b");
    out.index_weights = matrix(checkpoint, prefix + "indexer.weights_proj");
  }
}

EngramWeights resolve_engram(const arch::Checkpoint& checkpoint, const std::string& prefix) {
  EngramWeights out;
  const arch::TensorView& codes = checkpoint.tensor(prefix + "embed.weight");
  out.table.codes = codes.data.data();
  out.table.scales = bytes(checkpoint, prefix + "embed.scale");
  out.table.rows = codes.shape[0];
  out.table.head_dim = static_cast<uint32_t>(codes.shape[1]);
  out.wkv = matrix(checkpoint, prefix + "wkv");
  out.q_weight = bytes(checkpoint, prefix + "q_weight");
  out.k_weight = bytes(checkpoint, prefix + "k_weight");
  return out;
}

LayerWeights resolve_layer(const arch::Checkpoint& checkpoint, const arch::LayerRole& role) {
  const std::string prefix = fmt::format("layers.{}.", role.layer);
  LayerWeights out;
  out.hc_attn = hyper_connection(checkpoint, prefix + "hc_attn");
  out.hc_ffn = hyper_connection(checkpoint, prefix + "hc_ffn");
  out.attn_norm = bytes(checkpoint, prefix + "attn_norm.weight");
  out.ffn_norm = bytes(checkpoint, prefix + "ffn_norm.weight");
  resolve_attention(checkpoint, prefix + "attn.", role, out);
  out.gate = matrix(checkpoint, prefix + "ffn.gate");
  out.gate_bias = floats(checkpoint, prefix + "ffn.gate.bias");
  for (uint32_t e = 0; e < checkpoint.config().n_routed_experts; ++e) {
    out.experts.push_back(expert(checkpoint, fmt::format("{}ffn.experts.{}", prefix, e)));
  }
  out.shared = expert(checkpoint, prefix + "ffn.shared_experts");
  if (role.engram) out.engram = resolve_engram(checkpoint, prefix + "engram.");
  return out;
}

}  // namespace

ModelWeights resolve_weights(const arch::Checkpoint& checkpoint, const arch::LayerPlan& plan) {
  ModelWeights out;
  out.embed = matrix(checkpoint, "embed");
  out.head = matrix(checkpoint, "head");
  out.norm = bytes(checkpoint, "norm.weight");
  for (const arch::LayerRole& role : plan.layers) {
    out.layers.push_back(resolve_layer(checkpoint, role));
  }
  return out;
}

}  // namespace thimble::model
