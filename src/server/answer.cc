#include "server/answer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "net/sse.h"
#include "server/internal/identity.h"

namespace thimble::server {
namespace {

constexpr size_t kPiecesHeld = 256;  // of a whole answer, before they are put together
const net::HttpHeader kJsonType{"Content-Type", "application/json"};

std::vector<net::HttpHeader> stream_headers(std::vector<net::HttpHeader> headers) {
  headers.push_back({"Content-Type", "text/event-stream"});
  headers.push_back({"Cache-Control", "no-cache"});
  headers.push_back({"X-Accel-Buffering", "no"});  // or a proxy may collect the whole stream
  return headers;
}

void append(engine::TextDelta& to, const engine::TextDelta& from) {
  to.reasoning += from.reasoning;
  to.content += from.content;
}

AnswerEnd answer_end(bool called, const engine::GenerationEnd& end) {
  if (called) return AnswerEnd::kCalls;
  return end.reason == engine::FinishReason::kLength ? AnswerEnd::kLength : AnswerEnd::kStop;
}

}  // namespace

// One choice: what becomes of its tokens on the engine's thread, and how far its writing is.
class Answer::Choice : public engine::GenerationSink {
 public:
  Choice(Answer& answer, uint32_t choice_index)
      : index(choice_index), answer_(answer), text_(answer.tokenizer_, answer.options_.text) {
    if (answer.options_.with_logprobs) gathered.logprobs.emplace();
    gathered.choice = choice_index;
  }

  void on_prompt(std::vector<engine::PromptToken> tokens) override { prompt_ = std::move(tokens); }
  Next on_token(const engine::GeneratedToken& token) override;
  void on_end(const engine::GenerationEnd& end) override;

  // Names a call where it begins.
  CallPart call_part(const text::CallDelta& delta) {
    if (delta.name) call_ids_.push_back(random_id("call_"));
    return {delta.index, call_ids_.at(delta.index), delta.name, delta.arguments};
  }

  const uint32_t index;
  engine::RequestId request = 0;  // once the answer is submitted
  // The running task's.
  AnswerPart gathered;  // whole answers: everything; streams: log-probabilities not yet sent
  engine::GenerationEnd end;
  uint64_t reasoning_tokens = 0;
  TokenGaps gaps;
  AnswerEnd answer_end = AnswerEnd::kStop;

 private:
  Answer& answer_;
  // The engine's thread.
  engine::TextStream text_;
  TextOffsets offsets_;
  std::vector<int32_t> sampled_;  // if they are to be remembered
  int64_t token_us_ = 0;          // when the last one came
  TokenGaps gaps_;
  std::optional<std::vector<engine::PromptToken>> prompt_;
  // The running task.
  std::vector<std::string> call_ids_;
};

Answer::Answer(AnswerOptions options, std::shared_ptr<net::HttpExchange> exchange,
               Generator& generator, AnswerThreads threads, Done done)
    : options_(std::move(options)),
      exchange_(std::move(exchange)),
      generator_(generator),
      tokenizer_(*generator.info().tokenizer),
      threads_(std::move(threads)),
      done_(std::move(done)),
      expected_(options_.choices) {
  for (uint32_t i = 0; i < options_.choices; ++i) {
    choices_.push_back(std::make_unique<Choice>(*this, i));
  }
}

Answer::~Answer() = default;

void Answer::run(std::vector<engine::GenerationRequest> requests) {
  CHECK(!requests.empty());
  CHECK_EQ(requests.size(), choices_.size());
  if (options_.delivery == Delivery::kStream) {
    exchange_->begin_stream({200, stream_headers(options_.headers), {}},
                            {net::sse_comment("keep-alive"), options_.heartbeat_ms});
  }
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->client_left();
  });
  std::vector<engine::Submission> submissions;
  for (size_t i = 0; i < requests.size(); ++i) {
    // The engine's sink keeps the whole answer.
    std::shared_ptr<engine::GenerationSink> sink(shared_from_this(), choices_[i].get());
    submissions.push_back({std::move(requests[i]), std::move(sink)});
  }
  const auto ids = generator_.submit(std::move(submissions));
  if (!ids) return refuse(ids.error());
  for (size_t i = 0; i < ids->size(); ++i) choices_[i]->request = (*ids)[i];
  submitted_ = true;
  // Who cancelled before could not know of them.
  if (left_ || shutting_down_) cancel();
  tell(Accepted{});
}

// No choice will run.
void Answer::refuse(const Error& error) {
  const std::lock_guard lock(mutex_);
  refusal_ = refusal_error(error);
  expected_ = 0;
  schedule(Pace::kAtOnce);
}

void Answer::cancel() {
  if (!submitted_) return;
  for (const auto& choice : choices_) generator_.cancel(choice->request);
}

void Answer::client_left() {
  left_ = true;
  cancel();
}

void Answer::shut_down() {
  shutting_down_ = true;
  cancel();
}

// The engine's thread

engine::GenerationSink::Next Answer::Choice::on_token(const engine::GeneratedToken& token) {
  if (answer_.left_ || answer_.shutting_down_) return Next::kStop;
  if (answer_.options_.remember) sampled_.push_back(token.token);
  const int64_t now_us = base::monotonic_us();
  if (token_us_ != 0) gaps_.add(now_us - token_us_);
  token_us_ = now_us;
  Piece piece;
  piece.choice = this;
  const uint64_t reasoned = text_.reasoning_tokens();
  piece.text = text_.push(token.token);
  if (answer_.options_.with_logprobs) {
    const text::Tokenizer& tokenizer = answer_.tokenizer_;
    const bool shown =
        static_cast<uint32_t>(token.token) < tokenizer.size() && text_.shows(token.token);
    const uint64_t offset =
        offsets_.push(shown ? tokenizer.token_bytes(token.token) : std::string_view());
    piece.record = TokenRecord{token, text_.reasoning_tokens() > reasoned, offset};
  }
  const bool stopped = text_.stopped();
  if (!piece.text.empty() || piece.record) answer_.tell(std::move(piece));
  return stopped ? Next::kStop : Next::kContinue;
}

void Answer::Choice::on_end(const engine::GenerationEnd& generation) {
  engine::TextDelta rest = text_.finish();
  // A limit that comes within the block cuts it.
  const bool called = text_.called() &&
                      (text_.calls_closed() || generation.reason != engine::FinishReason::kLength);
  Ending ending{this,   generation,          std::move(rest),    text_.reasoning_tokens(),
                called, std::move(sampled_), std::move(prompt_), gaps_};
  answer_.tell(std::move(ending));
}

void Answer::tell(News news) {
  const Pace pace = std::holds_alternative<Piece>(news) ? Pace::kWithOthers : Pace::kAtOnce;
  const std::lock_guard lock(mutex_);
  news_.push_back(std::move(news));
  schedule(pace);
}

// REQUIRES: mutex_ held.
void Answer::schedule(Pace pace) {
  const bool streams = options_.delivery == Delivery::kStream;
  // Nobody waits for a part of a whole answer.
  if (!streams && pace == Pace::kWithOthers && news_.size() < kPiecesHeld) return;
  if (!std::exchange(scheduled_, true)) {
    auto task = [self = shared_from_this()] { self->drain(); };
    if (streams) {
      threads_.streams->post(std::move(task), written_us_);
    } else {
      threads_.pool->post(std::move(task));
    }
  }
  if (streams && pace == Pace::kAtOnce) threads_.streams->hurry();
}

// One task at a time

void Answer::drain() {
  while (true) {
    std::vector<News> news;
    {
      const std::lock_guard lock(mutex_);
      news.swap(news_);
      const bool over = ended_ == expected_;
      if (news.empty() && !over) {
        scheduled_ = false;
        return;
      }
      if (over) break;
    }
    for (News& one : news) {
      begin();
      if (auto* piece = std::get_if<Piece>(&one)) {
        take(std::move(*piece));
      } else if (auto* ending = std::get_if<Ending>(&one)) {
        end_choice(std::move(*ending));
      }
    }
  }
  finish();
}

// A token may come before submit() has returned, so whatever comes first begins the stream.
void Answer::begin() {
  if (std::exchange(begun_, true) || options_.delivery == Delivery::kWhole) return;
  send(options_.writer->begin());
}

void Answer::take(Piece piece) {
  Choice& choice = *piece.choice;
  AnswerPart& gathered = choice.gathered;
  if (piece.record) gathered.logprobs->push_back(std::move(*piece.record));
  if (options_.delivery == Delivery::kWhole) {
    append(gathered.text, piece.text);
    for (const text::CallDelta& call : piece.text.calls) {
      gathered.calls.push_back(choice.call_part(call));
    }
  } else if (!piece.text.empty()) {
    flush(choice, std::move(piece.text));
  }
}

// A stream's next part: this text, and the log-probabilities of all tokens up to it.
void Answer::flush(Choice& choice, engine::TextDelta text) {
  AnswerPart part;
  part.choice = choice.index;
  for (const text::CallDelta& call : text.calls) part.calls.push_back(choice.call_part(call));
  part.text = std::move(text);
  if (choice.gathered.logprobs) part.logprobs = std::exchange(*choice.gathered.logprobs, {});
  send(options_.writer->part(part));
}

void Answer::send(std::string bytes) {
  if (bytes.empty()) return;
  written_us_ = base::monotonic_us();
  if (!exchange_->write(std::move(bytes))) client_left();
}

void Answer::end_choice(Ending ending) {
  ++ended_;
  Choice& choice = *ending.choice;
  choice.end = ending.end;
  choice.reasoning_tokens = ending.reasoning_tokens;
  choice.gaps = ending.gaps;
  choice.answer_end = answer_end(ending.called, ending.end);
  if (options_.remember && ending.end.reason != engine::FinishReason::kError) {
    options_.remember(std::move(ending.sampled));
  }
  if (auto error = error_of(ending.end)) {
    if (!failure_) failure_ = std::move(error);
    return cancel();
  }
  AnswerPart& gathered = choice.gathered;
  gathered.prompt_logprobs = std::move(ending.prompt);
  if (options_.delivery == Delivery::kWhole) {
    return take({&choice, std::move(ending.rest), {}});
  }
  if (failure_) return;
  const bool logprobs_left = gathered.logprobs && !gathered.logprobs->empty();
  if (logprobs_left || !ending.rest.empty()) flush(choice, std::move(ending.rest));
  send(options_.writer->choice_end(choice.index, choice.answer_end));
}

void Answer::finish() {
  // Tokens of all choices; the prompt and the times are the first one's.
  const Choice& first = *choices_.front();
  AnswerSummary summary{options_.request_id,
                        options_.id,
                        200,
                        finish_reason_name(first.answer_end),
                        "",
                        first.end,
                        0};
  summary.end.completion_tokens = 0;
  for (const auto& choice : choices_) {
    summary.end.completion_tokens += choice->end.completion_tokens;
    summary.end.decode_us = std::max(summary.end.decode_us, choice->end.decode_us);
    summary.reasoning_tokens += choice->reasoning_tokens;
    summary.gaps.add(choice->gaps);
  }
  const bool refused = refusal_.has_value();
  if (const auto& error = refused ? refusal_ : failure_) {
    summary.status = error->status;
    summary.outcome = refused ? "refused" : left_ ? "gone" : "error";
    summary.error = error->message;
    if (refused) summary.reason = error->code.value_or(std::to_string(error->status));
    send_error(*error);
  } else {
    const engine::GenerationEnd& end = summary.end;
    const Usage usage{end.prompt_tokens, end.completion_tokens, summary.reasoning_tokens,
                      end.cached_tokens, end.replayed_tokens,   end.computed_tokens,
                      end.exact};
    if (options_.delivery == Delivery::kStream) {
      finish_stream(usage);
    } else {
      finish_whole(usage);
    }
  }
  done_(this, summary);
}

std::optional<ApiError> Answer::error_of(const engine::GenerationEnd& end) const {
  if (left_) return ApiError{499, "the client left", {}, {}, {}};
  if (shutting_down_ || end.reason == engine::FinishReason::kCancelled) {
    return api_error({ErrorCode::kUnavailable, "the server is shutting down", {}});
  }
  if (end.reason != engine::FinishReason::kError) return {};
  return api_error(end.error.value_or(Error{ErrorCode::kInternal, "generation failed", {}}));
}

void Answer::finish_stream(const Usage& usage) {
  send(options_.writer->end(usage));
  exchange_->end_stream();
}

void Answer::finish_whole(const Usage& usage) {
  std::vector<WholeChoice> choices;
  for (const auto& choice : choices_) choices.push_back({&choice->gathered, choice->answer_end});
  net::HttpResponse response{200, options_.headers, {}};
  response.headers.push_back(kJsonType);
  response.body = options_.writer->whole(choices, usage);
  exchange_->respond(std::move(response));
}

// A status if nothing was sent yet, else the stream's last words.
void Answer::send_error(const ApiError& error) {
  net::HttpResponse response = error_response(error);
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  if (options_.delivery == Delivery::kWhole) return exchange_->respond(std::move(response));
  exchange_->abort_stream(std::move(response), options_.writer->failure(error));
}

}  // namespace thimble::server
