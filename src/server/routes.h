// Every path this server answers, and what stands between a request and its answer: origin, key,
// method, model name.
//
//   GET  /                         the chat page and its files
//   GET  /health                   alive, and how busy
//   GET  /metrics                  Prometheus' text (server/metrics.h)
//   GET  /v1/cache                 what the cache holds
//   GET  /v1/models[/NAME]
//   GET  /v1/plan                  the capacity plan (server/plan_route.h)
//   POST /v1/chat/completions      POST /v1/completions      POST /v1/responses
//   POST /tokenize                 POST /detokenize
//
// API paths work with and without "/v1", but /plan is
// the page. HEAD is answered like GET, OPTIONS as CORS preflight.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "net/http.h"
#include "server/answer.h"
#include "server/errors.h"
#include "server/generator.h"
#include "server/metrics.h"
#include "server/origin.h"
#include "server/plan_route.h"
#include "server/prompt.h"
#include "server/static_files.h"
#include "server/turn_memory.h"

namespace thimble::server {

enum class ModelNames { kAny, kStrict };  // kStrict: another name than ours is a 404

struct RouteOptions {
  ModelNames model_names = ModelNames::kAny;
  std::string api_key;  // empty: none is asked for
  OriginPolicy origins;
  PromptDefaults defaults;
  PlannedModel planned;
  std::string fingerprint = "thimble";
  std::vector<StaticFile> files;
  uint32_t heartbeat_ms = 5000;
  uint64_t turn_memory_bytes = 64 << 20;  // of past answers' token ids
};

class Routes {
 public:
  // `generator` must outlive the routes.
  Routes(RouteOptions options, Generator& generator, AnswerThreads threads);
  ~Routes();

  // Answers now or later, on the pool. Any thread; returns at once.
  void handle(std::shared_ptr<net::HttpExchange> exchange);

  // From now on answers 503, and ends running answers.
  void shut_down();

 private:
  struct Call;
  struct Route;
  // An answer's name and how it reads.
  struct Spelling {
    std::string id;
    std::unique_ptr<AnswerWriter> writer;
  };
  // Empty: the answer comes later, through an Answer.
  using Reply = ApiResult<std::optional<net::HttpResponse>>;

  void route(const std::shared_ptr<net::HttpExchange>& exchange);
  Reply dispatch(Call& call);
  static const Route* find_route(std::string_view path);
  ApiResult<void> check_key(const net::HttpRequest& request) const;
  ApiResult<void> check_model(const std::string& name) const;

  Reply health(const Call& call);
  Reply models(const Call& call);
  Reply plan(const Call& call);
  Reply metrics(const Call& call);
  Reply cache(const Call& call);
  Reply model(const Call& call);
  Reply tokenize(const Call& call);
  Reply detokenize(const Call& call);
  Reply chat(const Call& call);
  Reply completion(const Call& call);
  Reply response(const Call& call);
  Spelling chunks(AnswerKind kind, const GenerationFields& fields, const Prompt& prompt) const;
  Reply generate(const Call& call, Spelling spelling, const GenerationFields& fields,
                 const Prompt& prompt);
  std::function<void(std::vector<int32_t>)> rememberer(const Prompt& prompt);
  void finished(const Answer* answer, const AnswerSummary& summary);

  const RouteOptions options_;
  Generator& generator_;
  const AnswerThreads threads_;
  const StaticFiles files_;
  TurnMemory turns_;
  RequestMetrics metrics_;
  std::mutex mutex_;  // guards the rest
  bool shutting_down_ = false;
  std::unordered_map<const Answer*, std::weak_ptr<Answer>> answers_;
};

}  // namespace thimble::server
