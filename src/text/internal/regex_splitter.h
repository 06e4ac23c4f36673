// Cuts text into pieces by a sequence of isolating regex splits (spec/chat-format.md 1.1).
//
// Each split is applied to every piece the earlier ones made; matches and what lies between them
// both stay as pieces, and no look-around sees past the piece. Immutable after compile(); any
// thread, each with its own Scratch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace thimble::text {

class RegexSplitter {
 public:
  // What one split() at a time needs: match data and the list of cuts.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class RegexSplitter;
    struct Match;
    std::unique_ptr<Match> match_;
    std::vector<uint32_t> ends_;
    std::vector<uint32_t> previous_ends_;
  };

  // `patterns` as tokenizer.json has them; see split_pattern.h for what is accepted.
  static Result<RegexSplitter> compile(std::span<const std::string> patterns);

  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) noexcept;
  ~RegexSplitter();

  // End of each piece, ascending; the last is text.size(). Valid until the next call with
  // `scratch`. A pattern that runs away (PCRE2's match limit, generous and linear in the text)
  // leaves the rest of its piece whole, so that every text can be split. REQUIRES: well-formed
  // UTF-8 of less than 2 GiB.
  std::span<const uint32_t> split(std::string_view text, Scratch& scratch) const;

 private:
  struct Pattern;
  explicit RegexSplitter(std::vector<Pattern> patterns);

  std::vector<Pattern> patterns_;
};

// "14.0.0": the Unicode version of the categories that patterns use.
std::string regex_unicode_version();

}  // namespace thimble::text
