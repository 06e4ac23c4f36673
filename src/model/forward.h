// The engine's forward pass in float32: chunks of sequences in, logits out.
//
// A Model is immutable after create() and safe to share; forward() changes only the chunks it is
// given and its Context, so one thread drives it at a time per Context. Every row is a pure
// function of its sequence's tokens (kernels/ops.h): chunk size, batch neighbours and thread count
// do not matter. The formulas are in reference.h, which this pass is tested against. Source:
// backbone spec.
#pragma once

#include <memory>
#include <span>

#include "arch/cache_layout.h"
#include "arch/checkpoint.h"
#include "arch/layer_plan.h"
#include "arch/row_plan.h"
#include "base/result.h"
#include "base/stop.h"
#include "kernels/ops.h"
#include "model/read_ahead.h"
#include "model/sequence_state.h"
#include "model/trace.h"

namespace thimble::model {

enum class Mode {
  kExact,  // stored formats decoded exactly, caches quantised
  kNokvq,  // as exact, caches in float32
  kFast,   // what serves: as exact, but for products with FP4 and FP8 weights (docs/numerics.md)
};

arch::CacheFormat cache_format(Mode mode);  // of the rows that a model of that mode caches

// Which index keys a ratio-2 source scores on a one-token step that leaves its group open: its own,
// or (as the published reference does) those of whichever owner published last. Backbone spec 6.7.
enum class IndexKeys { kOwn, kStale };

// Which weights the fast mode lays out anew in memory beforehand; the others it lays out as it
// goes, to the same bits.
enum class Packing {
  kNone,
  kDense,  // those that every token reads
  kAll,    // and the routed experts
};

struct ModelOptions {
  Mode mode = Mode::kFast;
  Packing packing = Packing::kAll;  // read in the fast mode only
  IndexKeys index_keys = IndexKeys::kOwn;
  // For weights that memory does not hold: experts are asked for once they are chosen, Engram rows
  // once the ids are known, so that the disk works while others compute. Costs a look at each page.
  bool read_ahead = false;
  std::span<const int32_t> token_map;  // [vocab_size]; needed when the model has Engram; copied
};

// Some tokens of one sequence, to be appended in this step.
struct Chunk {
  SequenceState* state = nullptr;
  const kernels::SequenceRows* rows = nullptr;  // room for position + ids.size() tokens
  std::span<const int32_t> ids;                 // not empty, each below vocab_size
  // Which of the rows run in which layer; null: all of them, and all entries are written. The chunk
  // lies within [plan->begin, plan->end).
  const arch::RowPlan* plan = nullptr;
  uint32_t logit_rows = 0;           // logits of the last so many ids, which run in every layer
  float* logits = nullptr;           // out [logit_rows, vocab_size]
  std::span<uint64_t> written = {};  // [owners] or empty: entries written, added to
  Trace* trace = nullptr;            // may be null
  const base::Stop* stop = nullptr;  // due once nobody wants the chunk any more; may be null
};

class Model {
 public:
  // The checkpoint must outlive the model: weights are read where they are mapped.
  static Result<std::unique_ptr<Model>> create(const arch::Checkpoint& checkpoint,
                                               const ModelOptions& options);
  ~Model();

  const arch::Config& config() const;
  const arch::LayerPlan& plan() const;
  arch::CacheFormat cache_format() const;  // of the rows forward() expects
  // Cached rows of one version are never mixed with another's. Every change that may move a bit of
  // them has a number of its own: a mode, an order of arithmetic, a rounding rule.
  uint32_t numerics_version() const;
  uint64_t packed_bytes() const;  // memory of its own that weights take
  // What was asked for with ModelOptions::read_ahead. Any thread.
  ReadAheadCounts read_ahead_counts() const;
  SequenceState new_sequence() const { return sequence_at({}); }
  // A sequence that will go on after `ids`, with no window key and no open group at hand.
  SequenceState sequence_at(std::span<const int32_t> ids) const;

  // Appends every chunk's ids to its sequence. All or nothing: an error (a token id outside the
  // vocabulary, a corrupt table row) leaves states untouched and writes no row. kCancelled: every
  // chunk's stop was due before a layer began; states are untouched, rows may have been written.
  Result<void> forward(std::span<const Chunk> chunks, kernels::Context context) const;

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace thimble::model
