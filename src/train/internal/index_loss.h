// The indexer's own loss: teacher and student of one selection, brought together once the last
// layer that it serves has attended.
//
// Training spec 5.4 (formulas), 5.6 (what to log).
#pragma once

#include "train/internal/ops.h"
#include "train/objective.h"

namespace thimble::train::internal {

// Sums over rows, so that pieces of a batch can be added.
struct IndexStatistics {
  double kl = 0;
  double kl_uniform = 0;
  double rows = 0;   // rows with entries
  double bound = 0;  // rows with more visible entries than slots
  double mass = 0;   // of attention on the selection

  void add(const IndexStatistics& other);
  // Share of the divergence from uniform that the indexer explains.
  double captured() const { return kl_uniform > 0 ? 1 - kl / kl_uniform : 0; }
};

// One selection on its way through the layers it serves.
struct IndexGroup {
  uint32_t layer = 0;
  Tensor q, weights, keys;       // the student, with gradient
  Indices support;               // [rows, slots]
  std::vector<Tensor> teachers;  // each [rows, slots], without
};

// Sum over rows times `scale`; adds to `statistics`.
Tensor index_loss(const IndexGroup& group, const IndexObjective& objective, double scale,
                  IndexStatistics& statistics);

}  // namespace thimble::train::internal
