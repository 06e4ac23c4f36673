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

Sequence::Sequence(PendingRequest pending)
    : pending_(std::move(pending)),
      sampler_(pending_.request.sampling, pending_.request.masked_tokens),
      started_us_(base::monotonic_us()) {
  end_.queue_us = started_us_ - pending_.submitted_us;
  end_.prompt_tokens = pending_.request.prompt.size();
}

void Sequence::start(StepRunner& runner) {
  const GenerationRequest& request = pending_.request;
  const uint64_t tokens = request.prompt.size() + request.max_tokens;
  try {
    auto state = runner.start({.prompt = request.prompt,
                               .tokens_max = tokens,
                               .replay = request.replay,
                               .salt = request.cache_salt,
                               .reuse = request.reuse,
                               .all_rows = wants_prompt(),
                               .snapshot_points = request.snapshot_points});
    if (!state) return end(FinishReason::kError, std::move(state).error());
    state_ = std::move(*state);
    prompt_done_ = state_->begin();
    CHECK(!wants_prompt() || prompt_done_ == 0);
    vocab_size_ = runner.vocab_size();
  } catch (const std::bad_alloc&) {
    end(FinishReason::kError,
        Error{ErrorCode::kResourceExhausted,
              fmt::format("no memory to start a sequence of {} tokens", tokens),
              {}});
  }
}

// Logits of all of a step's tokens take memory: no more than so many at once.
uint64_t Sequence::chunk_tokens(uint32_t prefill_chunk) const {
  if (!wants_prompt()) return prefill_chunk;
  const uint64_t rows = std::max<uint64_t>(1, kPromptLogitsMax / vocab_size_);
  return std::min<uint64_t>(prefill_chunk, rows);
}

Step Sequence::next_step(uint32_t prefill_chunk) {
  CHECK(!over_ && state_ != nullptr && prefill_chunk > 0);
  Step step{.sequence = state_.get(), .ids = {&last_token_, 1}, .logits = {}};
  uint64_t rows = 1;
  if (in_prompt()) {
    const std::span<const int32_t> prompt = pending_.request.prompt;
    const uint64_t left = prompt.size() - prompt_done_;
    const uint64_t allowed = state_->step_end_max(prompt_done_) - prompt_done_;
    step.ids = prompt.subspan(prompt_done_, std::min({left, chunk_tokens(prefill_chunk), allowed}));
    if (step.ids.size() < left) rows = 0;
    if (wants_prompt()) rows = step.ids.size();
  }
  logits_.resize(rows * vocab_size_);
  step.logits = logits_;
  step_tokens_ = step.ids.size();
  return step;
}

// The step's rows, of the prompt from `begin` on, each say how likely the next token was.
Result<void> Sequence::take_prompt_logprobs(uint64_t begin) {
  const std::vector<int32_t>& prompt = pending_.request.prompt;
  const std::span<const float> rows(logits_);
  for (uint64_t i = 0; i < step_tokens_ && begin + i + 1 < prompt.size(); ++i) {
    const int32_t token = prompt[begin + i + 1];
    auto of = THIMBLE_TRY(log_probabilities(rows.subspan(i * vocab_size_, vocab_size_), token,
                                            *pending_.request.prompt_logprobs));
    prompt_logprobs_.push_back({token, of.token, of.rank, std::move(of.top)});
  }
  return {};
}

Result<void> Sequence::tell_prompt() {
  try {
    pending_.sink->on_prompt(std::move(prompt_logprobs_));
  } catch (...) {
    return tl::unexpected(thrown_by_sink());
  }
  return {};
}

void Sequence::accept(const Result<void>& outcome) {
  if (!outcome) return end(FinishReason::kError, outcome.error());
  if (in_prompt()) {
    if (wants_prompt()) {
      if (auto taken = take_prompt_logprobs(prompt_done_); !taken) {
        return end(FinishReason::kError, std::move(taken).error());
      }
    }
    prompt_done_ += step_tokens_;
    if (in_prompt()) return;
    prefilled_us_ = base::monotonic_us();
    if (wants_prompt()) {
      if (auto told = tell_prompt(); !told) {
        return end(FinishReason::kError, std::move(told).error());
      }
    }
  }
  const auto token = sample();
  if (!token) return end(FinishReason::kError, token.error());
  emit(*token);
}

Result<GeneratedToken> Sequence::sample() {
  const uint64_t position = pending_.request.prompt.size() + end_.completion_tokens;
  const std::span<const float> logits = std::span(logits_).last(vocab_size_);
  GeneratedToken out;
  out.token = THIMBLE_TRY(sampler_.sample(logits, position));
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
  last_token_ = token.token;
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
  if (end_.completion_tokens >= pending_.request.max_tokens) end(FinishReason::kLength);
}

void Sequence::end(FinishReason reason, std::optional<Error> error) {
  CHECK(!over_);
  over_ = true;
  end_.reason = reason;
  end_.error = std::move(error);
  const int64_t now = base::monotonic_us();
  end_.prefill_us = (prefilled_us_ != 0 ? prefilled_us_ : now) - started_us_;
  end_.decode_us = prefilled_us_ != 0 ? now - prefilled_us_ : 0;
}

void Sequence::finish(StepRunner& runner) {
  CHECK(over_);
  if (state_ != nullptr) {
    const ReuseUsage usage = state_->usage();
    end_.cached_tokens = usage.cached_tokens;
    end_.replayed_tokens = usage.replayed_tokens;
    end_.computed_tokens = usage.computed_tokens;
    end_.exact = usage.exact;
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
