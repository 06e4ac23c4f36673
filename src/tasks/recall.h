// Associative recall: key-value pairs, then the keys again in another order; each is to be answered
// by its value. Answers are never shown (training spec 5.5).
//
// A pure function of options and seed; any thread.
#pragma once

#include "tasks/sample.h"

namespace thimble::tasks {

struct RecallOptions {
  uint32_t pairs = 16;
  uint32_t queries = 16;  // at most `pairs`
  uint32_t keys = 64;     // key tokens are 0 to keys - 1; at least `pairs`
  uint32_t values = 16;   // value tokens follow them
};

// Tokens of the vocabulary that the task uses.
constexpr uint32_t recall_vocabulary(const RecallOptions& o) { return o.keys + o.values; }

// [2 * pairs + queries] tokens.
Sample make_recall(const RecallOptions& options, uint64_t seed);

}  // namespace thimble::tasks
