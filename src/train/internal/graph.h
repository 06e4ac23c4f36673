// The trainable model: one forward pass over a batch piece that autograd can walk back.
//
// A function of weights, layout and options; it keeps nothing. Any number of threads may run it at
// once with the same weights. float32 to train, float64 to check gradients. It follows
// model/reference.cc step by step; a test holds the two together (training spec 18, A4).
#pragma once

#include "train/internal/index_loss.h"
#include "train/internal/select.h"
#include "train/internal/weights.h"

namespace thimble::train::internal {

// Discrete choices of a pass: kept, they can be forced upon another.
struct Choices {
  std::vector<Indices> selected;  // [layers]; null where none is made
  std::vector<Indices> experts;   // [layers]
  Candidates candidates;
};

struct ForwardOptions {
  bool round_caches = true;  // main KV to FP4, index rows to MXFP4, windows to FP8
  bool candidates = true;    // hierarchical candidates, where the configuration has them
  int64_t topk = 0;          // 0: the configuration's; larger than any document: dense
  Products products = Products::kFull;
  IndexObjective index;
  double balance_weight = 1e-4;
  uint64_t explore_seed = 0;
  const Choices* forced = nullptr;
};

// Loss terms are sums over rows times these.
struct LossScales {
  double labels = 1;  // one over the labels of the whole batch
  double tokens = 1;  // one over its tokens
};

struct ForwardResult {
  Tensor logits;                           // [decoder rows with labels or all, vocab]
  Tensor cross_entropy, balance, indexer;  // numbers; undefined where there is no such term
  IndexStatistics index;
  std::vector<std::vector<int64_t>> loads;  // [layers][experts] tokens routed
  Choices choices;

  Tensor loss() const;
};

class Graph {
 public:
  // The configuration and plan must outlive the object.
  Graph(const arch::Config& config, const arch::LayerPlan& plan) : config_(config), plan_(plan) {}

  ForwardResult losses(const ModelTensors& weights, const Layout& layout,
                       const ForwardOptions& options, const LossScales& scales) const;
  // Logits of every decoder row.
  ForwardResult logits(const ModelTensors& weights, const Layout& layout,
                       const ForwardOptions& options) const;

 private:
  const arch::Config& config_;
  const arch::LayerPlan& plan_;
};

}  // namespace thimble::train::internal
