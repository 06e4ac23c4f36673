#include "engine/internal/form_guide.h"

#include <algorithm>

namespace thimble::engine {
namespace {

void set(std::vector<uint64_t>& bits, int32_t token, bool value) {
  const auto at = static_cast<size_t>(token);
  const uint64_t bit = uint64_t{1} << (at % 64);
  if (at / 64 >= bits.size()) return;
  bits[at / 64] = value ? bits[at / 64] | bit : bits[at / 64] & ~bit;
}

}  // namespace

FormGuide::FormGuide(const AnswerForm& form, const std::vector<int32_t>& stop_tokens)
    : form_(form),
      stop_tokens_(stop_tokens),
      state_(form.masker->grammar().begin()),
      begun_(!form.begins_after) {}

std::span<const uint64_t> FormGuide::allowed(uint64_t vocab_size) {
  const size_t words = (vocab_size + 63) / 64;
  if (begun_) {
    form_.masker->allowed(state_, bits_);
    bits_.resize(words, 0);
  } else {
    bits_.assign(words, ~uint64_t{0});
    for (const int32_t token : form_.barred_before) set(bits_, token, false);
  }
  // An answer ends in its form or not at all.
  const bool may_stop = begun_ && text::Grammar::is_complete(state_);
  for (const int32_t token : stop_tokens_) set(bits_, token, may_stop);
  return bits_;
}

Result<void> FormGuide::accept(int32_t token) {
  if (!begun_) {
    begun_ = token == form_.begins_after;
    return {};
  }
  const auto& stops = stop_tokens_;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return {};
  if (form_.masker->accept(state_, token)) return {};
  return base::fail(ErrorCode::kUnsupported,
                    "the answer's form leaves more than {} ways open to go on",
                    text::kGrammarThreadsMax);
}

}  // namespace thimble::engine
