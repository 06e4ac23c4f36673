// Times between the tokens of an answer, counted by how long they are: what is kept of each token
// until the answer has ended. Values; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace thimble::server {

struct TokenGaps {
  // Upper ends of the counts, in seconds; the last count is of longer ones.
  static constexpr std::array<double, 12> kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                      0.1,   0.25,   0.5,   1,    2.5,   10};
  std::array<uint64_t, kSeconds.size() + 1> counts{};
  double seconds = 0;  // of all of them

  void add(int64_t us) {
    const double gap = static_cast<double>(us) * 1e-6;
    const auto at = std::lower_bound(kSeconds.begin(), kSeconds.end(), gap) - kSeconds.begin();
    ++counts[static_cast<size_t>(at)];
    seconds += gap;
  }
  void add(const TokenGaps& others) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += others.counts[i];
    seconds += others.seconds;
  }
};

}  // namespace thimble::server
