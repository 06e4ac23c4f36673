// The reference's weights: every tensor decoded to float32 once, in which each stored format is
// exact.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/checkpoint.h"
#include "arch/layer_plan.h"

namespace thimble::model {

// A weight decoded once; every stored format is exact in float32.
struct Matrix {
  enum class Kind { kF32, kBf16, kQuantised };  // what the published reference computes it in
  Kind kind = Kind::kF32;
  uint64_t rows = 0;
  uint64_t cols = 0;
  std::vector<float> values;  // [rows, cols]
  const float* row(uint64_t r) const { return values.data() + r * cols; }
};

struct HcSublayer {  // hyper-connection coefficients of one sublayer
  Matrix fn;
  std::vector<float> base, scale;
};

struct ReferenceExpert {
  Matrix w1, w2, w3;  // gate, down, up
};

struct ReferenceLayer {
  HcSublayer hc_attn, hc_ffn;
  std::vector<float> attn_norm, ffn_norm, q_norm, kv_norm, sink;
  Matrix wq_a, wq_b, wkv, wo_a, wo_b;
  // KV owners
  Matrix compress_wkv, compress_wgate, index_wk;
  std::vector<float> compress_norm, index_k_norm;
  // index sources
  Matrix index_wq_b, index_weights;
  // experts
  Matrix gate;
  std::vector<float> gate_bias;
  std::vector<ReferenceExpert> experts;
  ReferenceExpert shared;
  // Engram
  Matrix engram_wkv;
  std::vector<float> engram_q, engram_k;
};

struct ReferenceWeights {
  Matrix embed, head;
  std::vector<float> norm;
  std::vector<ReferenceLayer> layers;
};

// REQUIRES: `plan` is that of the checkpoint's config.
ReferenceWeights decode_reference_weights(const arch::Checkpoint& checkpoint,
                                          const arch::LayerPlan& plan);

// Element `i` of a byte tensor (FP8 codes and scales).
inline uint8_t byte_at(const arch::TensorView& view, uint64_t i) {
  return std::to_integer<uint8_t>(view.data[i]);
}

}  // namespace thimble::model
