// A checkpoint's tensors as the operations take them: resolved once, read where they are mapped.
//
// Views into the checkpoint, which must outlive them. Absent parts (no compressor, no Engram) are
// views without codes.
#pragma once

#include <optional>
#include <vector>

#include "arch/checkpoint.h"
#include "arch/layer_plan.h"
#include "kernels/ops.h"

namespace thimble::model {

using kernels::WeightView;

struct HcTensors {
  const float* fn = nullptr;
  const float* scale = nullptr;
  const float* base = nullptr;
};

struct ExpertWeights {
  WeightView w1, w2, w3;  // gate, down, up
};

struct CompressorWeights {  // KV owners
  WeightView wkv, wgate;    // wgate only at ratio 2
  WeightView index_wk;
  const std::byte* norm = nullptr;
  const std::byte* index_k_norm = nullptr;
};

struct EngramWeights {
  kernels::EngramTable table;
  WeightView wkv;
  const std::byte* q_weight = nullptr;
  const std::byte* k_weight = nullptr;
};

struct LayerWeights {
  HcTensors hc_attn, hc_ffn;
  const std::byte* attn_norm = nullptr;
  const std::byte* ffn_norm = nullptr;
  WeightView wq_a, wq_b, wkv, wo_a, wo_b;
  const std::byte* q_norm = nullptr;
  const std::byte* kv_norm = nullptr;
  const float* sink = nullptr;
  CompressorWeights compressor;
  WeightView index_wq_b, index_weights;  // index sources
  WeightView gate;
  const float* gate_bias = nullptr;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
  EngramWeights engram;
};

struct ModelWeights {
  WeightView embed, head;
  const std::byte* norm = nullptr;
  std::vector<LayerWeights> layers;
};

ModelWeights resolve_weights(const arch::Checkpoint& checkpoint, const arch::LayerPlan& plan);

}  // namespace thimble::model
