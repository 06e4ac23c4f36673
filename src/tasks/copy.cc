#include "tasks/copy.h"

#include "base/random.h"

namespace thimble::tasks {

Sample make_copy(const CopyOptions& options, uint64_t seed) {
  base::SplitMix64 random(seed);
  Sample out;
  for (uint32_t i = 0; i < options.tokens; ++i) {
    out.tokens.push_back(static_cast<int32_t>(1 + random.below(options.symbols)));
  }
  out.tokens.push_back(kCopySeparator);
  for (uint32_t i = 0; i < options.tokens; ++i) out.tokens.push_back(out.tokens[i]);
  out.answers.assign(out.tokens.size(), -1);
  for (size_t i = options.tokens; i + 1 < out.tokens.size(); ++i) {
    out.answers[i] = out.tokens[i + 1];
  }
  return out;
}

}  // namespace thimble::tasks
