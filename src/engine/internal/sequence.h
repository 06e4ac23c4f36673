// One running request: which tokens its next step computes, and what the step's logits become.
//
// The scheduler asks for a step, has it run and hands the outcome back; the sequence samples, tells
// the sink and decides when the request is over. Used by the engine thread alone. The sink is
// called with nothing locked, and what it throws ends this request only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/internal/step_runner.h"
#include "engine/request.h"
#include "engine/sampler.h"

namespace thimble::engine {

// A request as it waits.
struct PendingRequest {
  RequestId id = 0;
  GenerationRequest request;
  std::shared_ptr<GenerationSink> sink;
  int64_t submitted_us = 0;
};

// Calls sink.on_end(); an exception from it is logged and goes no further.
void notify_end(RequestId id, GenerationSink& sink, const GenerationEnd& end);

class Sequence {
 public:
  // Begins the request: time spent before this call is queue time.
  explicit Sequence(PendingRequest pending);

  // Asks the runner for the sequence's state; an error ends the request.
  void start(StepRunner& runner);

  // REQUIRES: not over(). Prompt tokens first, at most `prefill_chunk` of them, then one sampled
  // token at a time. Valid until the next call on this object.
  Step next_step(uint32_t prefill_chunk);

  // What became of the step that next_step() described: samples when it asked for logits.
  void accept(const Result<void>& outcome);

  // Ends the request. REQUIRES: not over().
  void end(FinishReason reason, std::optional<Error> error = std::nullopt);

  // Gives the runner what may serve again, and the memory back. REQUIRES: over().
  void finish(StepRunner& runner);
  // Sends on_end(), once. REQUIRES: finish() was called.
  void notify();

  const GenerationEnd& ending() const { return end_; }

  bool over() const { return over_; }
  uint64_t prompt_tokens_done() const { return prompt_done_; }
  uint64_t generated_tokens() const { return end_.completion_tokens; }

 private:
  bool in_prompt() const { return prompt_done_ < pending_.request.prompt.size(); }
  bool wants_prompt() const { return pending_.request.prompt_logprobs.has_value(); }
  uint64_t chunk_tokens(uint32_t prefill_chunk) const;
  Result<void> take_prompt_logprobs(uint64_t begin);
  Result<void> tell_prompt();
  Result<GeneratedToken> sample();
  void emit(const GeneratedToken& token);

  PendingRequest pending_;
  Sampler sampler_;
  std::unique_ptr<RunnerSequence> state_;
  uint64_t vocab_size_ = 0;
  std::vector<float> logits_;                 // [rows, vocab_size], of the step being run
  std::vector<PromptToken> prompt_logprobs_;  // of the prompt as far as it ran, if asked for
  uint64_t prompt_done_ = 0;                  // prompt tokens computed or cached
  uint64_t step_tokens_ = 0;                  // of the step being run
  int32_t last_token_ = 0;                    // sampled, not computed yet
  bool over_ = false;
  GenerationEnd end_;
  int64_t started_us_ = 0;
  int64_t prefilled_us_ = 0;  // 0: still in the prompt
};

}  // namespace thimble::engine
