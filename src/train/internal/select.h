// Which entries each query attends to, and which blocks of entries later layers may search: the
// rules of the served model over a batch of documents, without gradient.
//
// Ties go to the lower entry (and the earlier block). Backbone spec 6.4, 6.5; training spec 5.4,
// 8.1.
#pragma once

#include <optional>

#include "train/internal/layout.h"

namespace thimble::train::internal {

// Kept blocks of each query, as bits over its document's blocks; empty: all.
struct Candidates {
  std::vector<std::vector<bool>> kept;  // [queries]
};

struct SelectRules {
  int64_t topk = 0;  // slots; fewer are filled where fewer are visible
  // Not null: only these blocks are searched.
  const Candidates* within = nullptr;
  // Not null: receives the best blocks.
  Candidates* makes = nullptr;
  int64_t block_entries = 0;
  int64_t blocks_max = 0;
  double explore = 0;  // share of slots that become random visible entries
  uint64_t explore_seed = 0;
};

// Scores of a call: q [rows, heads, dims], weights [rows, heads], keys [entries, dims].
struct SelectInputs {
  Tensor q, weights, keys;
};

// [rows * slots] entries ascending, -1 at the end. `slots` is the largest number that any query
// fills.
Indices select_entries(const SelectInputs& in, const QueryRows& rows, const EntryRows& entries,
                       const SelectRules& rules);

// Every visible entry (of kept blocks), as select_entries() with no limit.
Indices all_visible(const QueryRows& rows, const EntryRows& entries, const Candidates* within,
                    int64_t block_entries);

}  // namespace thimble::train::internal
