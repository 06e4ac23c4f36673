#include "tasks/needle.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace thimble::tasks {

Sample make_needle(const NeedleOptions& options, uint64_t seed) {
  CHECK_GE(options.tokens, 5u);
  base::SplitMix64 random(seed);
  Sample out;
  for (uint32_t i = 0; i + 1 < options.tokens; ++i) {
    out.tokens.push_back(static_cast<int32_t>(2 + random.below(options.filler)));
  }
  const auto value = static_cast<int32_t>(2 + options.filler + random.below(options.values));
  const double depth = std::clamp(options.depth, 0.0, 1.0);
  const auto at = static_cast<size_t>(depth * (options.tokens - 3));
  out.tokens[at] = kNeedleMark;
  out.tokens[at + 1] = value;
  out.tokens.push_back(kNeedleQuestion);
  out.answers.assign(out.tokens.size(), -1);
  out.answers.back() = value;
  return out;
}

}  // namespace thimble::tasks
