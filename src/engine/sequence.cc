#include "engine/internal/sequence.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace thimble::engine {
namespace {

constexpr uint64_t kPromptLogitsMax = 16 << 20;  // floats

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "?";
}

// What a sink threw, as an error. REQUIRES: called from a catch block.
Error thrown_by_sink() {
  try {
    throw;
  } catch (const std::exception& thrown) {
    return {ErrorCode::kInternal, fmt::format("the token sink threw: {}", thrown.what()), {}};
  } catch (...) {
    return {ErrorCode::kInternal, "the token sink threw something that is no exception", {}};
  }
}

}  // namespace

void notify_end(RequestId id, GenerationSink& sink, const GenerationEnd& end) {
  try {
    sink.on_end(end);
  } catch (...) {
    base::log_error("sink failed at the end of a request",
                    {{"id", id}, {"error", thrown_by_sink().message}});
  }
}

Error deadline_passed() {
  return {ErrorCode::kUnavailable, "the request's deadline passed before it was done", {}};
}

Sequence::Sequence(PendingRequest pending)
    : pending_(std::move(pending)),
      sampler_(pending_.request.sampling, pending_.request.masked_tokens),
      prompt_tokens_(pending_.request.prompt.size()),
      text_(std::move(pending_.request.prompt)),
      started_us_(base::monotonic_us()) {
  end_.prompt_tokens = prompt_tokens_;
  sampler_.see(text_);
  const auto& form = pending_.request.form;
  if (form) guide_.emplace(*form, pending_.request.stop_tokens);
}

SequenceSpec Sequence::spec() const {
  const GenerationRequest& request = pending_.request;
  // What was exact before a pause stays so, whatever the request would allow.
  const bool resumes_exactly = ran_ && end_.exact;
  return {.prompt = text_,
          .tokens_max = prompt_tokens_ + request.max_tokens,
          .replay = resumes_exactly ? Replay::kExact : request.replay,
          .salt = request.cache_salt,
          .reuse = request.reuse || ran_,
          .all_rows = wants_prompt(),
          .snapshot_points = request.snapshot_points};
}

void Sequence::start(StepRunner& runner) {
  CHECK(!over_ && state_ == nullptr);
  const SequenceSpec spec = this->spec();
  try {
    auto state = runner.start(spec);
    if (!state) return end(FinishReason::kError, std::move(state).error());
    state_ = std::move(*state);
  } catch (const std::bad_alloc&) {
    return end(FinishReason::kError,
               Error{ErrorCode::kResourceExhausted,
                     fmt::format("no memory to start a sequence of {} tokens", spec.tokens_max),
                     {}});
  }
  vocab_size_ = runner.vocab_size();
  done_ = state_->begin();
  CHECK(!wants_prompt() || done_ == 0);
  if (ran_) return;
  started_us_ = base::monotonic_us();
  end_.queue_us = started_us_ - pending_.submitted_us;
  end_.cached_tokens = state_->usage().cached_tokens;
  known_ = end_.cached_tokens;
}

void Sequence::pause(StepRunner& runner) {
  CHECK(!over_ && state_ != nullptr);
  if (ran_) {
    take_usage();
    runner.pause(*state_);
    known_ = std::max(known_, done_);
  }
  state_.reset();
  prompt_logprobs_.clear();  // they are told all at once: a prompt that was not done begins anew
}

// Logits of all of a step's tokens take memory: no more than so many at once.
uint64_t Sequence::step_tokens_max() const {
  const uint64_t allowed = std::min<uint64_t>(state_->step_end_max(done_), text_.size()) - done_;
  if (!wants_prompt()) return allowed;
  return std::min(allowed, std::max<uint64_t>(1, kPromptLogitsMax / vocab_size_));
}

Step Sequence::next_step(uint64_t tokens) {
  CHECK(!over_ && state_ != nullptr && tokens > 0);
  CHECK_LE(tokens, step_tokens_max());
  Step step;
  step.sequence = state_.get();
  step.ids = std::span<const int32_t>(text_).subspan(done_, tokens);
  uint64_t rows = done_ + tokens == text_.size() ? 1 : 0;
  if (wants_prompt()) rows = tokens;
  logits_.resize(rows * vocab_size_);
  step.logits = logits_;
  step.stop = pending_.stop.get();
  step_tokens_ = tokens;
  ran_ = true;
  return step;
}

// The step's rows, of the prompt from `begin` on, each say how likely the next token was.
Result<void> Sequence::take_prompt_logprobs(uint64_t begin) {
  const std::span<const float> rows(logits_);
  for (uint64_t i = 0; i < step_tokens_ && begin + i + 1 < text_.size(); ++i) {
    const int32_t token = text_[begin + i + 1];
    auto of = THIMBLE_TRY(log_probabilities(rows.subspan(i * vocab_size_, vocab_size_), token,
                                            *pending_.request.prompt_logprobs));
    prompt_logprobs_.push_back({token, of.token, of.rank, std::move(of.top)});
  }
  return {};
}

Result<void> Sequence::tell_prompt() {
  prompt_told_ = true;
  try {
    pending_.sink->on_prompt(std::move(prompt_logprobs_));
  } catch (...) {
    return tl::unexpected(thrown_by_sink());
  }
  return {};
}

// Rows that run before a token is sampled; those of tokens known before run again.
void Sequence::count_rows() {
  if (decodes()) return;
  const uint64_t to = done_ + step_tokens_;
  end_.computed_tokens += step_tokens_;
  if (done_ < known_) end_.replayed_tokens += std::min(to, known_) - done_;
}

void Sequence::accept(const Result<void>& outcome) {
  if (!outcome && outcome.error().code == ErrorCode::kCancelled) return end_stopped();
  if (!outcome) return end(FinishReason::kError, outcome.error());
  count_rows();
  const uint64_t begin = done_;
  done_ += step_tokens_;
  if (wants_prompt()) {
    auto taken = take_prompt_logprobs(begin);
    if (taken && done_ == prompt_tokens_) taken = tell_prompt();
    if (!taken) return end(FinishReason::kError, std::move(taken).error());
  }
  if (done_ < text_.size()) return;
  if (prefilled_us_ == 0) prefilled_us_ = base::monotonic_us();
  auto token = sample();
  if (!token) return end(FinishReason::kError, token.error());
  sampled_ = *std::move(token);
}

void Sequence::tell() {
  if (!sampled_) return;
  const GeneratedToken token = *std::exchange(sampled_, std::nullopt);
  emit(token);
}

Result<GeneratedToken> Sequence::sample() {
  const uint64_t position = text_.size();
  const std::span<const float> logits = std::span(logits_).last(vocab_size_);
  GeneratedToken out;
  std::span<const uint64_t> allowed;
  if (guide_) allowed = guide_->allowed(vocab_size_);
  out.token = THIMBLE_TRY(sampler_.sample(logits, position, allowed));
  if (guide_) THIMBLE_TRY(guide_->accept(out.token));
  if (pending_.request.top_logprobs) {
    auto logprobs =
        THIMBLE_TRY(log_probabilities(logits, out.token, *pending_.request.top_logprobs));
    out.logprob = logprobs.token;
    out.top = std::move(logprobs.top);
  }
  return out;
}

void Sequence::emit(const GeneratedToken& token) {
  ++end_.completion_tokens;
  text_.push_back(token.token);
  const std::vector<int32_t>& stops = pending_.request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token.token) != stops.end()) {
    return end(FinishReason::kStop);
  }
  try {
    if (pending_.sink->on_token(token) == GenerationSink::Next::kStop) {
      return end(FinishReason::kStop);
    }
  } catch (...) {
    return end(FinishReason::kError, thrown_by_sink());
  }
  if (guide_ && guide_->is_over()) return end(FinishReason::kStop);
  if (end_.completion_tokens >= pending_.request.max_tokens) end(FinishReason::kLength);
}

void Sequence::end(FinishReason reason, std::optional<Error> error) {
  CHECK(!over_);
  over_ = true;
  if (!ran_) end_.queue_us = base::monotonic_us() - pending_.submitted_us;
  end_.reason = reason;
  end_.error = std::move(error);
  const int64_t now = base::monotonic_us();
  end_.prefill_us = (prefilled_us_ != 0 ? prefilled_us_ : now) - started_us_;
  end_.decode_us = prefilled_us_ != 0 ? now - prefilled_us_ : 0;
}

void Sequence::end_stopped() {
  if (pending_.stop->requested()) return end(FinishReason::kCancelled);
  end(FinishReason::kError, deadline_passed());
}

void Sequence::take_usage() { end_.exact = end_.exact && state_->usage().exact; }

void Sequence::finish(StepRunner& runner) {
  CHECK(over_);
  if (state_ != nullptr) {
    take_usage();
    if (end_.reason != FinishReason::kError) runner.finish(*state_);
  }
  state_.reset();  // its memory is free before the client hears of the end
  base::log_debug("request ended", {{"id", pending_.id},
                                    {"reason", to_string(end_.reason)},
                                    {"prompt_tokens", end_.prompt_tokens},
                                    {"cached_tokens", end_.cached_tokens},
                                    {"replayed_tokens", end_.replayed_tokens},
                                    {"completion_tokens", end_.completion_tokens},
                                    {"queue_us", end_.queue_us},
                                    {"prefill_us", end_.prefill_us},
                                    {"decode_us", end_.decode_us}});
}

void Sequence::notify() {
  CHECK(over_ && state_ == nullptr);
  notify_end(pending_.id, *pending_.sink, end_);
}

}  // namespace thimble::engine
