// Engram within one step: row ids of all rows, known before any layer runs, then gather and gate.
//
// Holds one step's ids; made and used by the thread that drives the step.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/engram.h"
#include "model/internal/step.h"

namespace thimble::model {

class EngramStep {
 public:
  // Hashes every row of the step for every Engram layer.
  EngramStep(const Step& step, const EngramHasher& hasher);

  // Asks for the table rows of all layers, where memory may not hold them.
  void read_ahead(const Step& step, const ModelWeights& weights) const;

  // Are the table rows that will be read free of NaN codes and scales? Names layer and row.
  Result<void> check_rows(const ModelWeights& weights) const;

  // Adds the gated values to the stream of every row, before the layer's block. Engram spec 2.7.
  void apply(Step& step, const LayerWeights& weights, const arch::LayerRole& role) const;

  // Compressed ids of the last tokens of chunk `c` once it is done, oldest first.
  std::vector<int32_t> history_after(size_t c) const { return histories_[c]; }

 private:
  std::vector<uint32_t> layer_ids_;
  std::vector<std::vector<int64_t>> rows_;       // [engram layers][n * lookups]
  std::vector<std::vector<int32_t>> histories_;  // [chunks][history_tokens]
  uint32_t lookups_ = 0;
};

}  // namespace thimble::model
