// What one batch piece looks like to the layers: who sees whom, where rows rotate, which entries
// exist. Integers and tables only, made before the forward pass.
//
// Rules of visibility come from arch/layer_plan.h. Sources: training spec 6 to 8, 13.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "arch/layer_plan.h"
#include "base/result.h"
#include "model/engram.h"
#include "model/rope.h"
#include "train/batch.h"
#include "train/internal/ops.h"

namespace thimble::train::internal {

// Rows that run through a half of the model.
struct QueryRows {
  Tensor source;                   // [rows] tokens they stand for; undefined: each token once
  Indices tokens;                  // [rows] the same, always there
  Indices window_first;            // [rows] first row of the window
  std::array<Tensor, 2> cos, sin;  // [rows, pairs]: window layers, compressed layers
  int64_t rows() const { return static_cast<int64_t>(tokens->size()); }
};

// Entries of one compression ratio over all documents.
struct EntryRows {
  int64_t count = 0;
  std::vector<Tensor> members;   // [ratio] of [count]: token of each place in the group
  Tensor cos, sin;               // [count, pairs]
  std::vector<int32_t> first;    // [tokens] first entry of the token's document
  std::vector<int32_t> visible;  // [tokens] entries it may see
};

struct Layout {
  Tensor tokens;  // [tokens]
  QueryRows encoder, decoder;
  std::array<EntryRows, 3> entries;      // by ratio
  std::vector<Tensor> engram_rows;       // [Engram layers] of [tokens * lookups]
  Indices labels;                        // [decoder rows]
  std::vector<int32_t> document;         // [tokens] number of the document
  std::vector<int32_t> document_tokens;  // [documents]
};

// What does not change from batch to batch.
struct LayoutTables {
  const arch::Config* config = nullptr;
  const arch::LayerPlan* plan = nullptr;
  const model::EngramHasher* hasher = nullptr;  // null: no Engram
  at::ScalarType type = at::kFloat;
};

Layout make_layout(const LayoutTables& tables, const Batch& batch);

}  // namespace thimble::train::internal
