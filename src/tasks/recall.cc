#include "tasks/recall.h"

#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace thimble::tasks {
namespace {

void shuffle(std::vector<int32_t>& list, base::SplitMix64& random) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
}

}  // namespace

Sample make_recall(const RecallOptions& options, uint64_t seed) {
  CHECK_LE(options.pairs, options.keys);
  CHECK_LE(options.queries, options.pairs);
  base::SplitMix64 random(seed);
  std::vector<int32_t> keys(options.keys);
  std::iota(keys.begin(), keys.end(), 0);
  shuffle(keys, random);
  keys.resize(options.pairs);
  Sample out;
  std::vector<int32_t> value_of(options.keys);
  for (const int32_t key : keys) {
    const auto value = static_cast<int32_t>(options.keys + random.below(options.values));
    value_of[static_cast<size_t>(key)] = value;
    out.tokens.insert(out.tokens.end(), {key, value});
    out.answers.insert(out.answers.end(), {-1, -1});
  }
  shuffle(keys, random);
  for (uint32_t i = 0; i < options.queries; ++i) {
    out.tokens.push_back(keys[i]);
    out.answers.push_back(value_of[static_cast<size_t>(keys[i])]);
  }
  return out;
}

}  // namespace thimble::tasks
