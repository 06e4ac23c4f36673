// The answer to a request, one or several choices, on its way from the engine to a client.
//
// Each choice is a request of its own to the engine. The engine's thread only detokenises
// (TextStream must say at once where a stop string ends the answer); JSON and writing happen on the
// thread of streams, or for whole answers on the worker pool, pieces in order, one task at a time.
// Owned by the generator until each choice's on_end() and by its own task until the last word is
// written. A client that leaves, or reads too slowly, cancels all of them, and so does a choice
// that fails. How it reads is the writer's affair.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "engine/text_stream.h"
#include "net/http.h"
#include "server/answer_writer.h"
#include "server/errors.h"
#include "server/generator.h"
#include "server/stream_thread.h"
#include "server/token_gaps.h"
#include "server/worker_pool.h"

namespace thimble::server {

enum class Delivery { kWhole, kStream };

struct AnswerOptions {
  std::string id;          // for the log, as are
  std::string request_id;  // this one
  std::unique_ptr<AnswerWriter> writer;
  Delivery delivery = Delivery::kWhole;
  engine::TextStreamOptions text;
  bool with_logprobs = false;
  uint32_t choices = 1;
  std::vector<net::HttpHeader> headers;  // of every response
  uint32_t heartbeat_ms = 5000;          // SSE comment while nothing else is sent
  // Told what was sampled, before the client hears of the end; may be empty.
  std::function<void(std::vector<int32_t>)> remember = {};
};

// Who writes: whole answers may be large, and must not hold up a stream.
struct AnswerThreads {
  std::shared_ptr<WorkerPool> pool;
  std::shared_ptr<StreamThread> streams;
};

// For the log, when all is over.
struct AnswerSummary {
  std::string request_id;
  std::string id;
  uint32_t status = 200;
  std::string outcome;  // a finish reason, "refused", "gone" or "error"
  std::string error;
  engine::GenerationEnd end;
  uint64_t reasoning_tokens = 0;
  std::string reason = {};  // of a refusal: the error's code
  TokenGaps gaps = {};
};

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  using Done = std::function<void(const Answer*, const AnswerSummary&)>;

  // `generator` must outlive the answer's cancellation; `done` runs once, on one
  // of the threads.
  Answer(AnswerOptions options, std::shared_ptr<net::HttpExchange> exchange, Generator& generator,
         AnswerThreads threads, Done done);
  ~Answer();

  // Submits a request for each choice. A refusal becomes the response. REQUIRES: as many as
  // options.choices.
  void run(std::vector<engine::GenerationRequest> requests);

  // Ends it with a 503: the server is going down.
  void shut_down();

 private:
  class Choice;
  struct Accepted {};  // all choices are
  struct Piece {
    Choice* choice = nullptr;
    engine::TextDelta text;
    std::optional<TokenRecord> record;
  };
  struct Ending {
    Choice* choice = nullptr;
    engine::GenerationEnd end;
    engine::TextDelta rest;
    uint64_t reasoning_tokens = 0;
    bool called = false;  // whole calls are what it ends in
    std::vector<int32_t> sampled;
    std::optional<std::vector<engine::PromptToken>> prompt;
    TokenGaps gaps;
  };
  using News = std::variant<Accepted, Piece, Ending>;

  void cancel();
  void client_left();
  void refuse(const Error& error);
  void tell(News news);
  enum class Pace { kAtOnce, kWithOthers };
  void schedule(Pace pace);
  void drain();
  void begin();
  void take(Piece piece);
  void flush(Choice& choice, engine::TextDelta text);
  void send(std::string bytes);
  void end_choice(Ending ending);
  void finish();
  std::optional<ApiError> error_of(const engine::GenerationEnd& end) const;
  void finish_stream(const Usage& usage);
  void finish_whole(const Usage& usage);
  void send_error(const ApiError& error);

  const AnswerOptions options_;
  const std::shared_ptr<net::HttpExchange> exchange_;
  Generator& generator_;  // for submit and cancel only
  const text::Tokenizer& tokenizer_;
  const AnswerThreads threads_;
  const Done done_;

  // Shared by threads.
  std::atomic<bool> left_{false};
  std::atomic<bool> shutting_down_{false};
  std::atomic<bool> submitted_{false};            // the choices' ids are there
  std::atomic<int64_t> written_us_{0};            // when the stream last was
  std::vector<std::unique_ptr<Choice>> choices_;  // [options.choices], fixed
  std::mutex mutex_;                              // guards the rest of these
  std::vector<News> news_;                        // in the order they came
  size_t expected_ = 0;                           // choices that will end
  std::optional<ApiError> refusal_;
  bool scheduled_ = false;

  // The running task.
  bool begun_ = false;  // the stream's first words are out
  size_t ended_ = 0;
  std::optional<ApiError> failure_;  // the first
};

}  // namespace thimble::server
