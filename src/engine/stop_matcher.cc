#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace thimble::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  const size_t examined = held_.size();
  held_ += text;
  for (size_t end = examined + 1; end <= held_.size(); ++end) {
    const size_t matched = longest_match_ending_at(end);
    if (matched == 0) continue;
    stopped_ = true;
    held_.resize(end - matched);
    return std::exchange(held_, {});
  }
  const size_t certain = first_undecided();
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  return out;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

// Bytes of the longest stop string that held_ has before `end`; 0: none. A match never began in
// text that is out already: its beginning would have been held.
size_t StopMatcher::longest_match_ending_at(size_t end) const {
  const std::string_view before = std::string_view(held_).substr(0, end);
  size_t matched = 0;
  for (const std::string& stop : stops_) {
    if (before.ends_with(stop)) matched = std::max(matched, stop.size());
  }
  return matched;
}

// Where the longest suffix of held_ begins that more text could make a stop string.
size_t StopMatcher::first_undecided() const {
  const size_t size = held_.size();
  for (size_t from = size - std::min(size, longest_); from < size; ++from) {
    const std::string_view suffix = std::string_view(held_).substr(from);
    for (const std::string& stop : stops_) {
      if (stop.starts_with(suffix)) return from;
    }
  }
  return size;
}

}  // namespace thimble::engine
