// The form of one answer as it is sampled: which tokens may come next.
//
// Lives with the sequence, so a pause changes nothing; what it says depends on the tokens of the
// answer alone. Engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "text/grammar.h"

namespace thimble::engine {

class FormGuide {
 public:
  // Both outlive it. REQUIRES: form.masker is not null.
  FormGuide(const AnswerForm& form, const std::vector<int32_t>& stop_tokens);

  // [vocab_size] bits, low ones first: 1 for a token that may come. Valid until the next call.
  std::span<const uint64_t> allowed(uint64_t vocab_size);

  // kUnsupported: the text can be understood in too many ways to go on. REQUIRES: the token was
  // allowed.
  Result<void> accept(int32_t token);

  // The answer has its form, and nothing may follow.
  bool is_over() const { return begun_ && state_.threads.empty(); }

 private:
  const AnswerForm& form_;
  const std::vector<int32_t>& stop_tokens_;
  text::GrammarState state_;
  bool begun_ = false;  // does the form hold yet?
  std::vector<uint64_t> bits_;
};

}  // namespace thimble::engine
