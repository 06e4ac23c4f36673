#include "server/answer.h"

#include <utility>

#include "net/sse.h"
#include "server/internal/identity.h"

namespace thimble::server {
namespace {

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

const char* reason_name(bool called, const engine::GenerationEnd& end) {
  return called ? "tool_calls" : finish_reason_name(end.reason);
}

}  // namespace

Answer::Answer(AnswerOptions options, std::shared_ptr<net::HttpExchange> exchange,
               Generator& generator, std::shared_ptr<WorkerPool> pool, Done done)
    : options_(std::move(options)),
      exchange_(std::move(exchange)),
      generator_(generator),
      tokenizer_(*generator.info().tokenizer),
      pool_(std::move(pool)),
      done_(std::move(done)),
      text_(tokenizer_, options_.text) {
  if (options_.with_logprobs) gathered_.logprobs.emplace();
}

void Answer::run(engine::GenerationRequest request) {
  if (options_.delivery == Delivery::kStream) {
    exchange_->begin_stream({200, stream_headers(options_.headers), {}},
                            {net::sse_comment("keep-alive"), options_.heartbeat_ms});
  }
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->client_left();
  });
  const auto id = generator_.submit(std::move(request), shared_from_this());
  if (!id) {
    const ApiError error = refusal_error(id.error());
    send_error(error);
    done_(this,
          {options_.request_id, options_.frame.id, error.status, "refused", error.message, {}, 0});
    return;
  }
  request_ = *id;
  submitted_ = true;
  if (left_ || shutting_down_) cancel();
}

void Answer::cancel() {
  if (submitted_) generator_.cancel(request_);
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

void Answer::on_prompt(std::vector<engine::PromptToken> tokens) { prompt_ = std::move(tokens); }

engine::GenerationSink::Next Answer::on_token(const engine::GeneratedToken& token) {
  if (left_ || shutting_down_) return Next::kStop;
  if (options_.remember) sampled_.push_back(token.token);
  Piece piece;
  const uint64_t reasoned = text_.reasoning_tokens();
  piece.text = text_.push(token.token);
  if (options_.with_logprobs) {
    const bool shown =
        static_cast<uint32_t>(token.token) < tokenizer_.size() && text_.shows(token.token);
    const uint64_t offset =
        offsets_.push(shown ? tokenizer_.token_bytes(token.token) : std::string_view());
    piece.record = TokenRecord{token, text_.reasoning_tokens() > reasoned, offset};
  }
  const bool stopped = text_.stopped();
  if (!piece.text.empty() || piece.record) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(std::move(piece));
    schedule();
  }
  return stopped ? Next::kStop : Next::kContinue;
}

void Answer::on_end(const engine::GenerationEnd& end) {
  engine::TextDelta rest = text_.finish();
  // A limit that comes within the block cuts it.
  const bool called =
      text_.called() && (text_.calls_closed() || end.reason != engine::FinishReason::kLength);
  Ending ending{end,    std::move(rest),     text_.reasoning_tokens(),
                called, std::move(sampled_), std::move(prompt_)};
  const std::lock_guard lock(mutex_);
  ending_ = std::move(ending);
  schedule();
}

// REQUIRES: mutex_ held.
void Answer::schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  pool_->post([self = shared_from_this()] { self->drain(); });
}

// The pool: one task at a time

void Answer::drain() {
  while (true) {
    std::vector<Piece> pieces;
    std::optional<Ending> ending;
    {
      const std::lock_guard lock(mutex_);
      pieces.swap(pieces_);
      ending.swap(ending_);
      if (pieces.empty() && !ending) {
        scheduled_ = false;
        return;
      }
    }
    for (Piece& piece : pieces) take(std::move(piece));
    if (ending) return finish(*ending);
  }
}

void Answer::take(Piece piece) {
  if (piece.record) gathered_.logprobs->push_back(std::move(*piece.record));
  if (options_.delivery == Delivery::kWhole) {
    append(gathered_.text, piece.text);
    for (const text::CallDelta& call : piece.text.calls) gathered_.calls.push_back(call_part(call));
  } else if (!piece.text.empty()) {
    flush(std::move(piece.text));
  }
}

// A stream's next chunks: this text, and the log-probabilities of all tokens up to it; then each
// call's part in a chunk of its own.
void Answer::flush(engine::TextDelta text) {
  const std::vector<text::CallDelta> calls = std::exchange(text.calls, {});
  AnswerPart part{std::move(text), {}, {}, {}};
  if (gathered_.logprobs) part.logprobs = std::exchange(*gathered_.logprobs, {});
  const ChunkPlace place = std::exchange(first_, false) ? ChunkPlace::kFirst : ChunkPlace::kLater;
  const bool needed = place == ChunkPlace::kFirst || !part.text.empty() || calls.empty();
  if (needed || part.logprobs) send(part_chunk(options_.frame, place, part, tokenizer_));
  for (const text::CallDelta& call : calls) {
    AnswerPart one;
    one.calls.push_back(call_part(call));
    send(part_chunk(options_.frame, ChunkPlace::kLater, one, tokenizer_));
  }
}

// Names the call where it begins.
CallPart Answer::call_part(const text::CallDelta& delta) {
  if (delta.name) call_ids_.push_back(random_id("call_"));
  return {delta.index, call_ids_.at(delta.index), delta.name, delta.arguments};
}

void Answer::send(const std::string& event) {
  if (!exchange_->write(net::sse_event(event))) client_left();
}

void Answer::finish(Ending& ending) {
  if (options_.remember && ending.end.reason != engine::FinishReason::kError) {
    options_.remember(std::move(ending.sampled));
  }
  AnswerSummary summary{options_.request_id, options_.frame.id,      200, "", "",
                        ending.end,          ending.reasoning_tokens};
  const std::optional<ApiError> error = error_of(ending.end);
  if (error) {
    summary.status = error->status;
    summary.outcome = left_ ? "gone" : "error";
    summary.error = error->message;
    send_error(*error);
  } else {
    summary.outcome = reason_name(ending.called, ending.end);
    const engine::GenerationEnd& end = ending.end;
    const Usage usage{end.prompt_tokens, end.completion_tokens, ending.reasoning_tokens,
                      end.cached_tokens, end.replayed_tokens,   end.computed_tokens,
                      end.exact};
    gathered_.prompt_logprobs = std::move(ending.prompt);
    if (options_.delivery == Delivery::kStream) {
      finish_stream(ending, usage);
    } else {
      finish_whole(ending, usage);
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

void Answer::finish_stream(const Ending& ending, const Usage& usage) {
  const bool logprobs_left = gathered_.logprobs && !gathered_.logprobs->empty();
  // An answer without text still has a first chunk, which names the role.
  if (first_ || logprobs_left || !ending.rest.empty()) flush(ending.rest);
  send(finish_chunk(options_.frame, reason_name(ending.called, ending.end)));
  if (options_.frame.with_usage) send(usage_chunk(options_.frame, usage));
  send("[DONE]");
  exchange_->end_stream();
}

void Answer::finish_whole(const Ending& ending, const Usage& usage) {
  append(gathered_.text, ending.rest);
  for (const text::CallDelta& call : ending.rest.calls) gathered_.calls.push_back(call_part(call));
  net::HttpResponse response{200, options_.headers, {}};
  response.headers.push_back(kJsonType);
  response.body = whole_answer(options_.frame, gathered_, reason_name(ending.called, ending.end),
                               usage, tokenizer_);
  exchange_->respond(std::move(response));
}

// A status if nothing was sent yet, else the stream's last event but one.
void Answer::send_error(const ApiError& error) {
  net::HttpResponse response = error_response(error);
  response.headers.insert(response.headers.end(), options_.headers.begin(), options_.headers.end());
  if (options_.delivery == Delivery::kWhole) return exchange_->respond(std::move(response));
  exchange_->abort_stream(std::move(response),
                          net::sse_event(error_json(error)) + net::sse_event("[DONE]"));
}

}  // namespace thimble::server
