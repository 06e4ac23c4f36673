// A needle at depth: filler, a marked value somewhere in it, more filler, and at the end the
// question for the value.
//
// A pure function of options and seed; any thread.
#pragma once

#include "tasks/sample.h"

namespace thimble::tasks {

struct NeedleOptions {
  uint32_t tokens = 128;  // whole length, at least 5
  double depth = 0.5;     // 0: at the beginning, 1: right before the question
  uint32_t filler = 32;   // filler tokens are 2 to filler + 1
  uint32_t values = 16;   // value tokens follow them
};

inline constexpr int32_t kNeedleMark = 0;
inline constexpr int32_t kNeedleQuestion = 1;

constexpr uint32_t needle_vocabulary(const NeedleOptions& o) { return 2 + o.filler + o.values; }

// filler..., mark, value, filler..., question; the answer to the question is the value.
Sample make_needle(const NeedleOptions& options, uint64_t seed);

}  // namespace thimble::tasks
