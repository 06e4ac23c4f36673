// Copy: random tokens, a separator, and the same tokens again; every repeated token is scored.
//
// A pure function of options and seed; any thread.
#pragma once

#include "tasks/sample.h"

namespace thimble::tasks {

struct CopyOptions {
  uint32_t tokens = 32;   // to be copied
  uint32_t symbols = 32;  // tokens are 1 to symbols; 0 separates
};

inline constexpr int32_t kCopySeparator = 0;

constexpr uint32_t copy_vocabulary(const CopyOptions& o) { return 1 + o.symbols; }

// [2 * tokens + 1]: the last token carries no answer.
Sample make_copy(const CopyOptions& options, uint64_t seed);

}  // namespace thimble::tasks
