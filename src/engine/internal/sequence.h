// One running request: which tokens its next step computes, and what the step's logits become.
//
// The scheduler asks for a step, has it run and hands the outcome back; the sequence samples, tells
// the sink and decides when the request is over. It can be paused between any two steps, which
// gives all cached rows away, and started again: sampler, form, sink and text stay here, and the
// same tokens follow. Used by the engine thread alone. The sink is called with nothing locked, and
// what it throws ends this request only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "engine/internal/form_guide.h"
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
  // Requested by who cancels it, from any thread; overdue at the request's deadline.
  std::shared_ptr<base::Stop> stop = std::make_shared<base::Stop>();
};

// Calls sink.on_end(); an exception from it is logged and goes no further.
void notify_end(RequestId id, GenerationSink& sink, const GenerationEnd& end);

// kUnavailable.
Error deadline_passed();

class Sequence {
 public:
  explicit Sequence(PendingRequest pending);

  // What start() asks the runner for.
  SequenceSpec spec() const;
  // Asks the runner for a sequence of all its tokens; an error ends the request. Time before the
  // last call that a step follows is queue time. REQUIRES: not started, or paused since.
  void start(StepRunner& runner);
  // Gives the sequence's memory back until the next start(). REQUIRES: started, not over().
  void pause(StepRunner& runner);
  bool started() const { return state_ != nullptr; }

  // Tokens that the next step may take at most, of prompt or text to be computed again; 1: a token
  // that was just sampled. REQUIRES: started.
  uint64_t step_tokens_max() const;
  // Is the next step such a token?
  bool decodes() const { return done_ + 1 == text_.size() && done_ >= prompt_tokens_; }
  // What so many tokens of the next step cost, in rows of layers.
  uint64_t layer_rows(uint64_t tokens) const { return state_->layer_rows(done_, done_ + tokens); }

  // The next `tokens` of its tokens, at most step_tokens_max(). Valid until the next call on this
  // object. REQUIRES: started, not over().
  Step next_step(uint64_t tokens);

  // What became of the step that next_step() described: samples when it asked for logits.
  void accept(const Result<void>& outcome);
  // Then tells the sink of the token, if there is one. Apart from accept(), so that those who hear
  // of a step's tokens wake once and not between the samples.
  void tell();

  // Ends the request. REQUIRES: not over().
  void end(FinishReason reason, std::optional<Error> error = std::nullopt);
  // The same for whichever reason its stop is due. REQUIRES: it is.
  void end_stopped();

  // Gives the runner what may serve again, and the memory back. REQUIRES: over().
  void finish(StepRunner& runner);
  // Sends on_end(), once. REQUIRES: finish() was called.
  void notify();

  RequestId id() const { return pending_.id; }
  const base::Stop& stop() const { return *pending_.stop; }
  const GenerationRequest& request() const { return pending_.request; }
  const GenerationEnd& ending() const { return end_; }
  RunnerSequence& state() { return *state_; }
  const RunnerSequence& state() const { return *state_; }
  std::span<const int32_t> text() const { return text_; }  // prompt and what was sampled
  uint64_t done() const { return done_; }                  // of which are computed or cached

  bool over() const { return over_; }
  uint64_t prompt_rows() const { return end_.computed_tokens; }
  uint64_t generated_tokens() const { return end_.completion_tokens; }

 private:
  bool wants_prompt() const { return pending_.request.prompt_logprobs && !prompt_told_; }
  Result<void> take_prompt_logprobs(uint64_t begin);
  Result<void> tell_prompt();
  void count_rows();
  void take_usage();
  Result<GeneratedToken> sample();
  void emit(const GeneratedToken& token);

  PendingRequest pending_;
  Sampler sampler_;
  std::optional<FormGuide> guide_;  // of a request with a form
  std::unique_ptr<RunnerSequence> state_;
  uint64_t vocab_size_ = 0;
  uint64_t prompt_tokens_ = 0;
  std::vector<int32_t> text_;                 // the prompt, then what was sampled
  uint64_t done_ = 0;                         // of text_: computed or cached
  uint64_t known_ = 0;                        // of text_: was once; computed again if it is now
  uint64_t step_tokens_ = 0;                  // of the step being run
  std::vector<float> logits_;                 // [rows, vocab_size], of the step being run
  std::vector<PromptToken> prompt_logprobs_;  // of the prompt as far as it ran, if asked for
  std::optional<GeneratedToken> sampled_;     // not told yet
  bool prompt_told_ = false;
  bool ran_ = false;  // was there a step?
  bool over_ = false;
  GenerationEnd end_;
  int64_t started_us_ = 0;
  int64_t prefilled_us_ = 0;  // 0: still in the prompt
};

}  // namespace thimble::engine
