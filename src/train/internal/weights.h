// Every learned tensor of a configuration: its name in the checkpoint, the form it is stored in,
// who updates it and how it begins. One list; model, optimisers, files and tests all walk it.
//
// The routed experts of a layer are one stacked tensor here and many in a checkpoint. Sources:
// backbone spec 2.3, training spec 3 (groups), 4 (beginnings).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "arch/config.h"
#include "arch/layer_plan.h"
#include "train/internal/torch.h"

namespace thimble::train::internal {

enum class Stored { kF32, kBf16, kFp8Tiles, kFp8Rows, kFp4Rows };

enum class Update {
  kMuon,
  kSinkhorn,
  kAdam,         // no weight decay: sinks, hyper-connection base and scale
  kAdamDecayed,  // norm weights
  kBalance,      // router biases: by load, not by gradient
};
inline constexpr int kUpdates = 5;

// The module that owns a parameter; groups for clipping and freezing go by it, never by name.
enum class Owner {
  kEmbedding,
  kHead,
  kNorm,
  kAttention,
  kCompressor,
  kIndexer,
  kHyper,
  kRouter,
  kExperts,
  kShared,
  kEngramTable,
  kEngram
};

enum class Begin { kNormal, kConstant, kHyperBase };

struct Parameter {
  std::string name;  // "{}" stands for the expert of a stack
  std::vector<int64_t> shape;
  Stored stored = Stored::kBf16;
  Update update = Update::kMuon;
  Owner owner = Owner::kAttention;
  int64_t blocks = 1;  // equal row blocks that Muon makes orthogonal one by one
  Begin begin = Begin::kNormal;
  double value = 0;  // deviation, constant, or the number of the sublayer

  bool stacked() const { return shape.size() == 3; }
};

struct HyperTensors {
  Tensor fn, base, scale;
};

struct LayerTensors {
  Tensor wq_a, q_norm, wq_b, wkv, kv_norm, sink, wo_a, wo_b;
  Tensor compress_wkv, compress_wgate, compress_norm, index_wk, index_k_norm;  // KV sources
  Tensor index_wq_b, index_weights;                                            // index sources
  Tensor attn_norm, ffn_norm;
  HyperTensors hyper_attn, hyper_ffn;
  Tensor gate, gate_bias, shared_w1, shared_w3, shared_w2, w1, w3, w2;
  Tensor engram_table, engram_wkv, engram_q, engram_k;
};

struct ModelTensors {
  Tensor embed, norm, head;
  std::vector<LayerTensors> layers;
};

using VisitParameter = std::function<void(const Parameter&, Tensor&)>;

// In checkpoint order. `tensors.layers` is sized to fit.
void visit(const arch::Config& config, const arch::LayerPlan& plan, ModelTensors& tensors,
           const VisitParameter& f);

std::vector<Parameter> parameters_of(const arch::Config& config, const arch::LayerPlan& plan);
ModelTensors bind_tensors(const arch::Config& config, const arch::LayerPlan& plan,
                          const std::vector<Tensor>& values);

// Values to begin with, float32, a pure function of seed and name.
std::vector<Tensor> begin_values(const std::vector<Parameter>& parameters, uint64_t seed);

// `master` as its stored form decodes: on the grid of FP8, FP4 or BF16. REQUIRES float32.
Tensor stored_value(const Parameter& parameter, const Tensor& master);

}  // namespace thimble::train::internal
