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
#include "model/internal/read_ahead.h"
#include "model/internal/weights.h"
#include "model/rope.h"

namespace thimble::model {

using kernels::Context;
using kernels::Rows;

// A row of the step: one new token of one chunk.
struct StepRow {
  uint32_t chunk = 0;
  uint64_t position = 0;
  uint64_t source = 0;  // its index before any row was dropped
};

struct RopeTable {
  Rows<float> cos, sin;  // [rows, pairs]
};

// The state a chunk will have once the step is done; stored when nothing can fail any more.
struct ChunkProgress {
  uint64_t first_row = 0;            // the rows that still run: consecutive,
  uint64_t row_count = 0;            // the chunk's last ones
  uint64_t begin = 0;                // position of the chunk's first token
  uint64_t end = 0;                  // one past its last
  std::vector<HalfPair> half_pairs;  // [owners]
  std::vector<WindowSpan> windows;   // [layers]
  std::optional<uint32_t> published_keys;

  uint64_t first_position() const { return end - row_count; }
};

struct Step {
  const arch::Config& config;
  const arch::LayerPlan& plan;
  Mode mode;
  IndexKeys index_keys;
  Context context;
  const RopeFrequencies& frequencies;
  std::span<const Chunk> chunks;
  ReadAhead* read_ahead;                     // null: memory holds the weights
  std::vector<ChunkProgress> progress{};     // [chunks]
  std::vector<StepRow> rows{};               // [n]
  RopeTable rope[2]{};                       // window layers, layers that read compressed KV
  Rows<float> stream{};                      // [n, copies * hidden]
  Rows<float> pre{};                         // [n, copies]: collapse mix of the previous sublayer
  Rows<float> x{};                           // [n, hidden]: the next sublayer's input, normalised
  kernels::HcMix mix{};                      // of the layer's first sublayer
  bool entered = false;                      // x and mix are those of the layer to come
  Rows<int32_t> selected{};                  // [n, index_topk] of the last index source
  std::vector<uint8_t*> candidate_blocks{};  // [n], of the candidate source
  std::vector<uint8_t> candidate_storage{};  // what they point into

  uint64_t n() const { return rows.size(); }
  const Chunk& chunk_of(uint64_t row) const { return chunks[rows[row].chunk]; }

  // Drops rows of every chunk until `first_kept` of its rows (a member of arch::LayerRows) is the
  // first; chunks without a plan keep theirs.
  void keep_from(uint32_t layer, uint64_t arch::LayerRows::*first_kept);

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

// Where a chunk's window keys lie during the step.
struct ChunkWindow {
  kernels::RingRows ring;
  uint64_t begin = 0;  // keys [begin, end) were written by this step
  uint64_t end = 0;
};
using StepWindows = std::vector<ChunkWindow>;  // [chunks]

// Writes the window key of every row of x. Rings longer than the sequences' own come from the
// workspace.
StepWindows write_windows(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                          Rows<const float> x);

// y[i] = the attention branch of the layer for the normalised rows x. [n, hidden]
void attention(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
               const StepWindows& windows, Rows<const float> x, Rows<float> y);

// Brings the sequences' rings up to date where the step used longer ones.
void store_windows(const Step& step, uint32_t layer, const StepWindows& windows);

// Compresses the rows into new entries of the owner `role` is: index keys and main rows, written to
// the chunks' pages. Entries below a chunk's hit are left alone.
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
