// Learns a byte-level BPE vocabulary from text and writes it as the tokenizer.json that
// Tokenizer::parse() reads: the released pre-tokenizer and control tokens, merges of its own.
//
// Words (pieces of the pre-tokenizer) are counted once; the most frequent adjacent pair is merged,
// counts of its neighbours change in place, and a heap finds the next: near-linear in distinct
// words. Ties go to the smaller pair of ids, so equal text gives equal files. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace thimble::text {

class BpeTrainer {
 public:
  static Result<BpeTrainer> create();
  BpeTrainer(BpeTrainer&&) noexcept;
  ~BpeTrainer();

  // Counts the words of `text`. Ill-formed UTF-8 becomes U+FFFD. May be called for many pieces.
  void add(std::string_view text);

  uint64_t words() const;  // distinct

  // A tokenizer.json of at most `size` ids; fewer where no pair occurs `least` times. REQUIRES:
  // size >= byte_tokenizer_size().
  std::string finish(int32_t size, uint64_t least = 2);

 private:
  struct Impl;
  explicit BpeTrainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace thimble::text
