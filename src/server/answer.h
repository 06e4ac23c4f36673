// One answer on its way from the engine to a client.
//
// The engine's thread only detokenises (TextStream must say at once where a stop string ends the
// answer); JSON and writing happen on the worker pool, pieces in order, one task at a time. Owned
// by the generator until on_end() and by its own task until the last word is written. A client
// that leaves, or reads too slowly, cancels the request.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/text_stream.h"
#include "net/http.h"
#include "server/errors.h"
#include "server/generator.h"
#include "server/openai_answers.h"
#include "server/worker_pool.h"

namespace thimble::server {

enum class Delivery { kWhole, kStream };

struct AnswerOptions {
  AnswerFrame frame;
  std::string request_id;  // for the log
  Delivery delivery = Delivery::kWhole;
  engine::TextStreamOptions text;
  bool with_logprobs = false;
  std::vector<net::HttpHeader> headers;  // of every response
  uint32_t heartbeat_ms = 5000;          // SSE comment while nothing else is sent
  // Told what was sampled, before the client hears of the end; may be empty.
  std::function<void(std::vector<int32_t>)> remember = {};
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
};

class Answer : public engine::GenerationSink, public std::enable_shared_from_this<Answer> {
 public:
  using Done = std::function<void(const Answer*, const AnswerSummary&)>;

  // `generator` must outlive the answer's cancellation; `done` runs once, on the pool.
  Answer(AnswerOptions options, std::shared_ptr<net::HttpExchange> exchange, Generator& generator,
         std::shared_ptr<WorkerPool> pool, Done done);

  // Submits the request. A refusal becomes the response.
  void run(engine::GenerationRequest request);

  // Ends it with a 503: the server is going down.
  void shut_down();

  void on_prompt(std::vector<engine::PromptToken> tokens) override;
  Next on_token(const engine::GeneratedToken& token) override;
  void on_end(const engine::GenerationEnd& end) override;

 private:
  struct Piece {
    engine::TextDelta text;
    std::optional<TokenRecord> record;
  };
  struct Ending {
    engine::GenerationEnd end;
    engine::TextDelta rest;
    uint64_t reasoning_tokens = 0;
    bool called = false;  // whole calls are what it ends in
    std::vector<int32_t> sampled;
    std::optional<std::vector<engine::PromptToken>> prompt;
  };

  void cancel();
  void client_left();
  void schedule();
  void drain();
  void take(Piece piece);
  void flush(engine::TextDelta text);
  CallPart call_part(const text::CallDelta& delta);
  void send(const std::string& event);
  void finish(Ending& ending);
  std::optional<ApiError> error_of(const engine::GenerationEnd& end) const;
  void finish_stream(const Ending& ending, const Usage& usage);
  void finish_whole(const Ending& ending, const Usage& usage);
  void send_error(const ApiError& error);

  const AnswerOptions options_;
  const std::shared_ptr<net::HttpExchange> exchange_;
  Generator& generator_;  // for submit and cancel only
  const text::Tokenizer& tokenizer_;
  const std::shared_ptr<WorkerPool> pool_;
  const Done done_;

  // Shared by threads.
  std::atomic<bool> left_{false};
  std::atomic<bool> shutting_down_{false};
  std::atomic<engine::RequestId> request_{0};
  std::atomic<bool> submitted_{false};
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  std::optional<Ending> ending_;
  bool scheduled_ = false;

  // The engine's thread.
  engine::TextStream text_;
  TextOffsets offsets_;
  std::vector<int32_t> sampled_;  // if they are to be remembered
  std::optional<std::vector<engine::PromptToken>> prompt_;

  // The running task.
  bool first_ = true;
  std::vector<std::string> call_ids_;
  AnswerPart gathered_;  // whole answers: everything; streams: log-probabilities not yet sent
};

}  // namespace thimble::server
