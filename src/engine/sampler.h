// From the logits of one position to a token, and to log-probabilities.
//
// A draw is a pure function of the logits, the parameters, the masked ids, what is allowed, the
// position it is for and, with penalties, what this sampler saw and drew before: one uniform number
// from (seed, position), whatever else the process did. Arithmetic on probabilities is in double,
// in a fixed order. A Sampler keeps counts and scratch memory between calls: one per request, used
// by one thread at a time. Defaults of the parameters: chat-format spec section 10.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace thimble::engine {

// kInvalidArgument names the parameter that is out of range, its value and the range.
Result<void> validate(const SamplingParams& params);

class Sampler {
 public:
  // REQUIRES: `params` are valid. Masked ids may repeat and come in any order.
  Sampler(const SamplingParams& params, std::span<const int32_t> masked);

  // The prompt: its tokens count for repetition_penalty as drawn ones do.
  void see(std::span<const int32_t> prompt);

  // The token for `position`. First the logits change: biases are added, then repetition_penalty,
  // then the other two penalties are applied, as vLLM does it. Then temperature 0 takes the largest
  // logit; otherwise one draw from softmax(logits / temperature), restricted in this order to
  //   top_k: the k most likely tokens,
  //   top_p: the most likely of those whose joint share of what top_k left first reaches top_p,
  //   min_p: those at least min_p times as likely as the most likely.
  // Of equal logits the lower id counts as more likely. kCorrupt: a logit is not finite;
  // kInvalidArgument: a bias is for no token; kInternal: every token is masked, which no request is
  // to blame for. `allowed`: bits of the tokens that may come, low ones first; empty: all. Before
  // all else the others, and masked ones, are no candidates. REQUIRES: `logits` is not empty;
  // `allowed` has a bit for each if it has any.
  Result<int32_t> sample(std::span<const float> logits, uint64_t position,
                         std::span<const uint64_t> allowed = {});

 private:
  struct Candidate {
    int32_t token = 0;
    double weight = 0;  // probability times a common factor; the largest is 1
  };

  Result<std::span<const float>> adjusted(std::span<const float> logits);
  void penalize_repetition();
  int32_t count(int32_t token);
  bool is_masked(int32_t token) const;
  bool is_allowed(size_t token) const {
    return allowed_.empty() || ((allowed_[token / 64] >> (token % 64)) & 1) != 0;
  }
  Result<int32_t> most_likely(std::span<const float> logits) const;
  void weigh(std::span<const float> logits, float largest);
  void rank(size_t count);
  void keep_top_k();
  void keep_top_p();
  void keep_min_p();
  int32_t draw(uint64_t position) const;

  SamplingParams params_;
  std::vector<int32_t> masked_;        // ascending
  std::span<const uint64_t> allowed_;  // of the running call
  std::map<int32_t, uint64_t> drawn_;  // with penalties: how often each token was
  std::vector<bool> seen_;             // [token]; with repetition_penalty: prompt or drawn
  std::vector<float> adjusted_;        // [vocab_size], scratch
  std::vector<Candidate> candidates_;  // scratch of one call
  size_t ranked_ = 0;                  // so many candidates lead, most likely first
};

struct LogProbabilities {
  float token = 0;                // of the token asked for
  uint64_t rank = 0;              // its place among all, from 1 on
  std::vector<TokenLogprob> top;  // most likely first, lower id first among equals
};

// Natural logarithms of softmax(logits): no temperature, no filters, masked ids included. Gives
// min(top, logits) alternatives. kCorrupt: a logit is not finite. REQUIRES: token < logits.size().
Result<LogProbabilities> log_probabilities(std::span<const float> logits, int32_t token,
                                           uint32_t top);

}  // namespace thimble::engine
