// Finds the first stop string in a stream of text and lets through only what none can take back.
//
// "First" is the match that ends first, the longest of those that end together: a rule that gives
// the same answer however the stream is cut. One object per answer; not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thimble::engine {

class StopMatcher {
 public:
  // Empty stop strings are ignored. REQUIRES: UTF-8, or a delta could begin inside a character.
  explicit StopMatcher(std::vector<std::string> stops);

  // Text that is certain by now. After a match: what preceded it, then nothing more.
  std::string push(std::string_view text);
  // What was held back, once nothing more comes.
  std::string finish();

  bool stopped() const { return stopped_; }

 private:
  size_t longest_match_ending_at(size_t end) const;
  size_t first_undecided() const;

  std::vector<std::string> stops_;
  size_t longest_ = 0;  // bytes of the longest stop string
  std::string held_;    // a proper prefix of a stop string
  bool stopped_ = false;
};

}  // namespace thimble::engine
