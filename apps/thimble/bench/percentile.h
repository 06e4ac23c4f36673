// Of measured values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace thimble::app {

// The value that `share` of the others lie below, the nearest there is; 0 of none.
inline double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

inline double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

}  // namespace thimble::app
