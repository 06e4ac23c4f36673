// One call of forward(): the rows of all its chunks side by side, and what the layers hand on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "arch/config.h"
#include "arch/layer_plan.h"
#include "kernels/ops.h"
#include "model/forward.h"
#include "model/internal/weights.h"
#include "model/rope.h"

namespace thimble::model {

using kernels::Context;
using kernels::Rows;

// A row of the step: one new token of one chunk.
struct StepRow {
  uint32_t chunk = 0;
  uint64_t position = 0;
};

struct RopeTable {
  Rows<float> cos, sin;  // [rows, pairs]
};

// The state a chunk will have once the step is done; stored when nothing can fail any more.
struct ChunkProgress {
  uint32_t first_row = 0;            // its rows are consecutive
  uint64_t begin = 0;                // position of the first
  std::vector<HalfPair> half_pairs;  // [owners]
  std::optional<uint32_t> published_keys;
};

struct Step {
  const arch::Config& config;
  const arch::LayerPlan& plan;
  Mode mode;
  IndexKeys index_keys;
  Context context;
  const RopeFrequencies& frequencies;
  std::span<const Chunk> chunks;
  std::vector<ChunkProgress> progress{};     // [chunks]
  std::vector<StepRow> rows{};               // [n]
  RopeTable rope[2]{};                       // window layers, layers that read compressed KV
  Rows<float> stream{};                      // [n, copies * hidden]
  Rows<float> pre{};                         // [n, copies]: collapse mix of the previous sublayer
  Rows<int32_t> selected{};                  // [n, index_topk] of the last index source
  std::vector<uint8_t*> candidate_blocks{};  // [n], of the candidate source
  std::vector<uint8_t> candidate_storage{};  // what they point into

  uint64_t n() const { return rows.size(); }
  const Chunk& chunk_of(uint64_t row) const { return chunks[rows[row].chunk]; }

  // Scratch rows, valid to the end of the enclosing Mark.
  Rows<float> take(uint64_t count, uint64_t cols) const {
    return {context.workspace.take<float>(count * cols).data(), count, cols};
  }

  // Tells every chunk's trace that asks for it.
  void tell(std::string_view what, uint32_t layer, Rows<const float> values) const {
    for (uint64_t i = 0; i < n(); ++i) {
      Trace* trace = chunk_of(i).trace;
      if (trace != nullptr && trace->wants(what)) {
        trace->floats(what, layer, rows[i].position, {values.row(i), values.cols});
      }
    }
  }
  void tell(std::string_view what, uint32_t layer, Rows<const int32_t> values) const {
    for (uint64_t i = 0; i < n(); ++i) {
      Trace* trace = chunk_of(i).trace;
      if (trace != nullptr && trace->wants(what)) {
        trace->ints(what, layer, rows[i].position, {values.row(i), values.cols});
      }
    }
  }
};

// y[i] = the attention branch of layer `layer` for the normalised rows x. [n, hidden]
void attention(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
               Rows<const float> x, Rows<float> y);

// Compresses the rows into new entries of the owner `role` is: index keys and main rows, written to
// the chunks' pages.
void compress(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
              Rows<const float> x);

// Scores the visible entries of every row and keeps the best in step.selected. q_latent: [n,
// q_rank].
void select_entries(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                    Rows<const float> x, Rows<const float> q_latent);

// y[i] = the expert branch for the normalised rows x. [n, hidden]
void mixture_of_experts(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                        Rows<const float> x, Rows<float> y);

}  // namespace thimble::model
