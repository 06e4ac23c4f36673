#include "model/internal/reference_weights.h"

#include <fmt/format.h>

#include <string>

#include "base/bytes.h"
#include "numeric/bf16.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace thimble::model {
namespace {

std::vector<float> decode_floats(const arch::TensorView& view) {
  std::vector<float> out(view.elements());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = view.dtype == arch::DType::kF32
                 ? base::load<float>(view.data.data() + 4 * i)
                 : numeric::bf16_to_float(base::load<uint16_t>(view.data.data() + 2 * i));
  }
  return out;
}

// FP8 with a scale per 32x32 block, or FP4 (even column low) with a scale per row and 32 columns.
Matrix decode_matrix(const arch::Checkpoint& checkpoint, const std::string& name) {
  const arch::TensorView& weight = checkpoint.tensor(name + ".weight");
  Matrix out;
  out.rows = weight.shape[0];
  if (weight.dtype == arch::DType::kBF16 || weight.dtype == arch::DType::kF32) {
    out.kind = weight.dtype == arch::DType::kF32 ? Matrix::Kind::kF32 : Matrix::Kind::kBf16;
    out.cols = weight.shape[1];
    out.values = decode_floats(weight);
    return out;
  }
  const arch::TensorView& scale = checkpoint.tensor(name + ".scale");
  const bool fp4 = weight.dtype == arch::DType::kI8;
  out.kind = Matrix::Kind::kQuantised;
  out.cols = weight.shape[1] * (fp4 ? 2 : 1);
  out.values.resize(out.rows * out.cols);
  for (uint64_t r = 0; r < out.rows; ++r) {
    for (uint64_t c = 0; c < out.cols; ++c) {
      const uint64_t scale_row = fp4 ? r : r / 32;
      const float s = numeric::e8m0_to_float(byte_at(scale, scale_row * (out.cols / 32) + c / 32));
      const uint64_t at = r * out.cols + c;
      const float code =
          fp4 ? numeric::e2m1_to_float((byte_at(weight, at / 2) >> (c % 2 * 4)) & 0xF)
              : numeric::e4m3_to_float(byte_at(weight, at));
      out.values[at] = code * s;
    }
  }
  return out;
}

class Loader {
 public:
  Loader(const arch::Checkpoint& checkpoint, const arch::LayerPlan& plan)
      : checkpoint_(checkpoint), config_(checkpoint.config()), plan_(plan) {}

  ReferenceWeights load() {
    ReferenceWeights out;
    out.embed = matrix("embed");
    out.head = matrix("head");
    out.head.kind = Matrix::Kind::kF32;
    out.norm = vector_of("norm.weight");
    for (const arch::LayerRole& role : plan_.layers) out.layers.push_back(load_layer(role));
    return out;
  }

 private:
  Matrix matrix(const std::string& name) const { return decode_matrix(checkpoint_, name); }

  std::vector<float> vector_of(const std::string& name) const {
    return decode_floats(checkpoint_.tensor(name));
  }

  HcSublayer load_hc(const std::string& prefix) const {
    HcSublayer hc;
    hc.fn.values = vector_of(prefix + "_fn");
    hc.fn.cols = static_cast<uint64_t>(config_.hc_mult) * config_.hidden_size;
    hc.fn.rows = hc.fn.values.size() / hc.fn.cols;
    hc.base = vector_of(prefix + "_base");
    hc.scale = vector_of(prefix + "_scale");
    return hc;
  }

  ReferenceExpert load_expert(const std::string& prefix) const {
    return {matrix(prefix + ".w1"), matrix(prefix + ".w2"), matrix(prefix + ".w3")};
  }

  void load_attention(ReferenceLayer& out, const std::string& attn,
                      const arch::LayerRole& role) const {
    out.wq_a = matrix(attn + "wq_a");
    out.q_norm = vector_of(attn + "q_norm.weight");
    out.wq_b = matrix(attn + "wq_b");
    out.wkv = matrix(attn + "wkv");
    out.kv_norm = vector_of(attn + "kv_norm.weight");
    out.sink = vector_of(attn + "attn_sink");
    out.wo_a = matrix(attn + "wo_a");
    out.wo_a.kind = Matrix::Kind::kBf16;  // used dequantised, its input is not rounded to FP8
    out.wo_b = matrix(attn + "wo_b");
    if (role.mode == arch::AttentionMode::kFull) load_compressor(out, attn, role.ratio);
    if (role.selects()) {
      out.index_wq_b = matrix(attn + "indexer.wq_b");
      out.index_weights = matrix(attn + "indexer.weights_proj");
    }
  }

  void load_compressor(ReferenceLayer& out, const std::string& attn, uint32_t ratio) const {
    out.compress_wkv = matrix(attn + "compressor.wkv");
    out.compress_norm = vector_of(attn + "compressor.norm.weight");
    out.index_wk = matrix(attn + "indexer.wk");
    out.index_k_norm = vector_of(attn + "indexer.k_norm.weight");
    if (ratio == 2) {
      out.compress_wgate = matrix(attn + "compressor.wgate");
      out.compress_wkv.kind = out.compress_wgate.kind = Matrix::Kind::kF32;
    }
  }

  ReferenceLayer load_layer(const arch::LayerRole& role) const {
    const std::string prefix = fmt::format("layers.{}.", role.layer);
    ReferenceLayer out;
    out.hc_attn = load_hc(prefix + "hc_attn");
    out.hc_ffn = load_hc(prefix + "hc_ffn");
    out.attn_norm = vector_of(prefix + "attn_norm.weight");
    out.ffn_norm = vector_of(prefix + "ffn_norm.weight");
    load_attention(out, prefix + "attn.", role);
    out.gate = matrix(prefix + "ffn.gate");
    out.gate.kind = Matrix::Kind::kF32;
    out.gate_bias = vector_of(prefix + "ffn.gate.bias");
    for (uint32_t e = 0; e < config_.n_routed_experts; ++e) {
      out.experts.push_back(load_expert(fmt::format("{}ffn.experts.{}", prefix, e)));
    }
    out.shared = load_expert(prefix + "ffn.shared_experts");
    if (role.engram) {
      out.engram_wkv = matrix(prefix + "engram.wkv");
      out.engram_q = vector_of(prefix + "engram.q_weight");
      out.engram_k = vector_of(prefix + "engram.k_weight");
    }
    return out;
  }

  const arch::Checkpoint& checkpoint_;
  const arch::Config& config_;
  const arch::LayerPlan& plan_;
};

}  // namespace

ReferenceWeights decode_reference_weights(const arch::Checkpoint& checkpoint,
                                          const arch::LayerPlan& plan) {
  return Loader(checkpoint, plan).load();
}

}  // namespace thimble::model
