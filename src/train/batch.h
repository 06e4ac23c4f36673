// One piece of a training batch: token rows with documents packed into them, laid end to end.
//
// Documents never see each other: windows, entries, n-grams and balance sums end at their borders.
// A document may run its decoder half in several segments, each with windows that begin anew: this
// is how a bounded replay looks to training (training spec 8.3). Plain data; any thread.
#pragma once

#include <cstdint>
#include <vector>

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
  bool padding = false;           // fills a row: no loss, not counted in balance
  std::vector<Segment> segments;  // empty: one, all of it
};

struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;      // [tokens] the next token, or -1: no loss here
  std::vector<Document> documents;  // ascending, without gaps
};

}  // namespace thimble::train
