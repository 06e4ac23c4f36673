// One piece of a training batch: documents laid end to end. Rows are only how the data is cut into
// pieces of equal size; the room that packing leaves empty costs nothing.
//
// Documents never see each other: windows, entries, n-grams and balance sums end at their borders.
// A document may run its decoder half in several segments, each with windows that begin anew: this
// is how a bounded replay looks to training (training spec 8.3). Plain data; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/corpus.h"
#include "train/options.h"
#include "train/packing.h"

namespace thimble::train {

// Tokens [begin, end) run through the decoder half with no window key below `begin`; those below
// `loss_from` carry no loss (they are replayed). Segments of a document may overlap.
struct Segment {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t loss_from = 0;
};

struct Document {
  int32_t begin = 0;  // tokens [begin, end) of the batch
  int32_t end = 0;
  std::vector<Segment> segments;  // empty: one, all of it
};

struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;      // [tokens] the next token, or -1: no loss here
  std::vector<Document> documents;  // ascending, without gaps
};

struct BatchOptions {
  uint32_t window = 0;  // of the model: what a replay runs again
  DecoderReplay replay = DecoderReplay::kNone;
  double replay_share = 0;
  uint64_t seed = 0;  // of the cuts
};

// The documents of some packed rows.
Batch make_batch(std::span<const Row> rows, const Corpus& corpus, const BatchOptions& options);

}  // namespace thimble::train
