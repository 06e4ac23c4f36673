#include "server/routes.h"

#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "server/internal/chunk_writer.h"
#include "server/internal/identity.h"
#include "server/internal/json.h"
#include "server/internal/response_request.h"
#include "server/internal/response_writer.h"
#include "server/origin.h"
#include "text/utf8.h"

namespace thimble::server {

enum class Access { kOpen, kKeyed };

// A request as handlers see it.
struct Routes::Call {
  const std::shared_ptr<net::HttpExchange>& exchange;
  const net::HttpRequest& request;
  std::string id;
  std::string_view path;                 // without "/v1"
  std::vector<net::HttpHeader> headers;  // of whatever is answered
};

struct Routes::Route {
  std::string_view path;
  std::string_view method;
  Access access;
  Reply (Routes::*handler)(const Call&);
};

namespace {

constexpr std::string_view kModelPrefix = "/models/";

// Takes as long for a near miss as for a far one.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

std::string_view api_path(std::string_view path) {
  return path.starts_with("/v1/") ? path.substr(3) : path;
}

net::HttpResponse json_response(std::string body) {
  return {200, {{"Content-Type", "application/json"}}, std::move(body)};
}

// Only for requests that come from a page.
std::vector<net::HttpHeader> cors_headers(std::string_view origin) {
  if (origin.empty()) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
}

net::HttpResponse options_response(std::string_view allow, const net::HttpRequest& request) {
  net::HttpResponse response{204, {{"Allow", std::string(allow)}}, {}};
  if (request.header("Origin").empty()) return response;
  response.headers.push_back({"Access-Control-Allow-Methods", std::string(allow)});
  response.headers.push_back({"Access-Control-Allow-Headers", "*, Authorization"});
  response.headers.push_back({"Access-Control-Max-Age", "600"});
  return response;
}

void log_outcome(const AnswerSummary& summary) {
  const engine::GenerationEnd& end = summary.end;
  const double seconds = static_cast<double>(end.decode_us) * 1e-6;
  const double rate =
      end.decode_us > 0 ? static_cast<double>(end.completion_tokens) / seconds : 0.0;
  base::log_info("request", {{"id", summary.request_id},
                             {"answer", summary.id},
                             {"status", summary.status},
                             {"outcome", summary.outcome},
                             {"prompt_tokens", end.prompt_tokens},
                             {"completion_tokens", end.completion_tokens},
                             {"reasoning_tokens", summary.reasoning_tokens},
                             {"cached_tokens", end.cached_tokens},
                             {"replayed_tokens", end.replayed_tokens},
                             {"queue_ms", end.queue_us / 1000},
                             {"prefill_ms", end.prefill_us / 1000},
                             {"decode_ms", end.decode_us / 1000},
                             {"tokens_per_s", fmt::format("{:.1f}", rate)},
                             {"error", summary.error}});
}

OrderedJson token_strings(const std::vector<int32_t>& ids, const text::Tokenizer& tokenizer) {
  OrderedJson out = OrderedJson::array();
  for (const int32_t id : ids) out.push_back(text::to_valid_utf8(tokenizer.token_bytes(id)));
  return out;
}

// {"id", "piece"}: a piece that is no text by itself is a list of its bytes.
OrderedJson token_pieces(const std::vector<int32_t>& ids, const text::Tokenizer& tokenizer) {
  OrderedJson out = OrderedJson::array();
  for (const int32_t id : ids) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    OrderedJson piece = bytes;
    if (!text::is_valid_utf8(bytes)) piece = byte_list(bytes);
    out.push_back({{"id", id}, {"piece", std::move(piece)}});
  }
  return out;
}

}  // namespace

Routes::Routes(RouteOptions options, Generator& generator, AnswerThreads threads)
    : options_(std::move(options)),
      generator_(generator),
      threads_(std::move(threads)),
      files_(options_.files),
      turns_(options_.turn_memory_bytes) {}

Routes::~Routes() = default;

void Routes::handle(std::shared_ptr<net::HttpExchange> exchange) {
  threads_.pool->post([this, exchange = std::move(exchange)] { route(exchange); });
}

void Routes::shut_down() {
  std::vector<std::shared_ptr<Answer>> running;
  {
    const std::lock_guard lock(mutex_);
    shutting_down_ = true;
    for (const auto& [key, weak] : answers_) {
      if (auto answer = weak.lock()) running.push_back(std::move(answer));
    }
  }
  for (const auto& answer : running) answer->shut_down();
}

const Routes::Route* Routes::find_route(std::string_view path) {
  static constexpr std::array<Route, 10> kRoutes{{
      {"/health", "GET", Access::kOpen, &Routes::health},
      {"/models", "GET", Access::kKeyed, &Routes::models},
      {"/plan", "GET", Access::kKeyed, &Routes::plan},
      {"/metrics", "GET", Access::kKeyed, &Routes::metrics},
      {"/cache", "GET", Access::kKeyed, &Routes::cache},
      {"/tokenize", "POST", Access::kKeyed, &Routes::tokenize},
      {"/detokenize", "POST", Access::kKeyed, &Routes::detokenize},
      {"/chat/completions", "POST", Access::kKeyed, &Routes::chat},
      {"/completions", "POST", Access::kKeyed, &Routes::completion},
      {"/responses", "POST", Access::kKeyed, &Routes::response},
  }};
  static constexpr Route kModel{kModelPrefix, "GET", Access::kKeyed, &Routes::model};
  for (const Route& route : kRoutes) {
    if (route.path == path) return &route;
  }
  return path.starts_with(kModelPrefix) ? &kModel : nullptr;
}

void Routes::route(const std::shared_ptr<net::HttpExchange>& exchange) {
  const net::HttpRequest& request = exchange->request();
  Call call{exchange, request, random_id("req-"), api_path(request.path), {}};
  call.headers = {{"X-Request-Id", call.id}};
  Reply reply = dispatch(call);
  if (reply && !*reply) return;
  net::HttpResponse response = reply ? std::move(**reply) : error_response(reply.error());
  response.headers.insert(response.headers.end(), call.headers.begin(), call.headers.end());
  const auto log = response.status < 400 ? base::log_debug : base::log_info;
  log("request", {{"id", call.id},
                  {"method", request.method},
                  {"path", request.path},
                  {"status", response.status},
                  {"error", reply ? std::string() : reply.error().message}});
  exchange->respond(std::move(response));
}

Routes::Reply Routes::dispatch(Call& call) {
  const net::HttpRequest& request = call.request;
  const std::string_view origin = request.header("Origin");
  if (!host_allowed(request.header("Host"), options_.origins)) {
    return tl::unexpected(
        ApiError{403,
                 fmt::format("this server is not called '{}'; see --allow-origin",
                             text::to_valid_utf8(request.header("Host").substr(0, 256))),
                 {},
                 {},
                 {}});
  }
  if (!origin_allowed(origin, request.header("Host"), options_.origins)) {
    return tl::unexpected(ApiError{
        403, "pages from other sites may not call this server; see --allow-origin", {}, {}, {}});
  }
  const auto cors = cors_headers(origin);
  call.headers.insert(call.headers.end(), cors.begin(), cors.end());

  const bool is_file = files_.has(request.path);
  const Route* found = find_route(call.path);
  if (!is_file && found == nullptr) {
    return tl::unexpected(ApiError{404, "there is nothing at this path", {}, "not_found", {}});
  }
  const std::string_view method = is_file ? "GET" : found->method;
  const std::string allow = method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  if (request.method == "OPTIONS") return options_response(allow, request);
  if (request.method != method && !(request.method == "HEAD" && method == "GET")) {
    call.headers.push_back({"Allow", allow});
    return tl::unexpected(ApiError{
        405, fmt::format("this path answers to {} only", method), {}, "method_not_allowed", {}});
  }
  if (is_file) return files_.serve(request);
  if (found->access == Access::kKeyed) THIMBLE_TRY(check_key(request));
  return (this->*found->handler)(call);
}

ApiResult<void> Routes::check_key(const net::HttpRequest& request) const {
  if (options_.api_key.empty()) return {};
  std::string_view given = request.header("Authorization");
  constexpr std::string_view kBearer = "Bearer ";
  if (net::same_name(given.substr(0, kBearer.size()), kBearer)) {
    given.remove_prefix(kBearer.size());
    if (same_secret(given, options_.api_key)) return {};
  }
  return tl::unexpected(ApiError{401,
                                 "this server needs its API key: 'Authorization: Bearer KEY'",
                                 {},
                                 "invalid_api_key",
                                 {}});
}

ApiResult<void> Routes::check_model(const std::string& name) const {
  const std::string& ours = generator_.info().name;
  if (options_.model_names == ModelNames::kAny || name.empty() || name == ours) return {};
  return tl::unexpected(ApiError{404,
                                 fmt::format("there is no model '{}' here, only '{}'", name, ours),
                                 "model",
                                 "model_not_found",
                                 {}});
}

Routes::Reply Routes::health(const Call&) {
  bool down = false;
  {
    const std::lock_guard lock(mutex_);
    down = shutting_down_;
  }
  const Generator::Load load = generator_.load();
  net::HttpResponse response =
      json_response(to_text({{"status", down ? "shutting down" : "ok"},
                             {"model", generator_.info().name},
                             {"requests", {{"running", load.running}, {"waiting", load.waiting}}},
                             {"cache",
                              {{"hits", load.cache_hits},
                               {"cached_tokens", load.cached_tokens},
                               {"replayed_tokens", load.replayed_tokens},
                               {"blocks_used", load.cache.blocks_used},
                               {"blocks_total", load.cache.blocks_total},
                               {"snapshots", load.cache.snapshots}}}}));
  response.headers.push_back({"Cache-Control", "no-store"});
  if (down) response.status = 503;
  return response;
}

Routes::Reply Routes::models(const Call&) {
  return json_response(models_json(generator_.info(), options_.defaults));
}

Routes::Reply Routes::plan(const Call& call) {
  return json_response(THIMBLE_TRY(plan_json(options_.planned, call.request.query)));
}

Routes::Reply Routes::metrics(const Call&) {
  return net::HttpResponse{
      200,
      {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}, {"Cache-Control", "no-store"}},
      metrics_.text(generator_.info(), generator_.load())};
}

Routes::Reply Routes::cache(const Call&) {
  net::HttpResponse response = json_response(cache_json(generator_.load()));
  response.headers.push_back({"Cache-Control", "no-store"});
  return response;
}

Routes::Reply Routes::model(const Call& call) {
  const std::string name = net::percent_decode(call.path.substr(kModelPrefix.size()));
  if (name == generator_.info().name) {
    return json_response(model_json(generator_.info(), options_.defaults));
  }
  return tl::unexpected(ApiError{404,
                                 fmt::format("there is no model '{}' here, only '{}'",
                                             text::to_valid_utf8(name), generator_.info().name),
                                 "model",
                                 "model_not_found",
                                 {}});
}

Routes::Reply Routes::tokenize(const Call& call) {
  const TokenizeRequest request = THIMBLE_TRY(parse_tokenize_request(call.request.body));
  const ModelInfo& info = generator_.info();
  std::vector<int32_t> ids;
  if (request.chat) {
    ids = THIMBLE_TRY(chat_prompt(*request.chat, info, options_.defaults, turns_)).ids;
  } else {
    ids = info.tokenizer->encode(request.text, request.added);
    if (request.add_special && info.bos) ids.insert(ids.begin(), *info.bos);
  }
  OrderedJson out = {
      {"tokens", ids}, {"count", ids.size()}, {"max_model_len", info.context_tokens}};
  if (request.with_pieces) out["tokens"] = token_pieces(ids, *info.tokenizer);
  if (request.with_strings) out["token_strs"] = token_strings(ids, *info.tokenizer);
  return json_response(to_text(out));
}

Routes::Reply Routes::detokenize(const Call& call) {
  const std::vector<int32_t> ids = THIMBLE_TRY(parse_detokenize_request(call.request.body));
  const auto bytes = generator_.info().tokenizer->decode(ids);
  if (!bytes) return bad_field("tokens", bytes.error().describe());
  const std::string text = text::to_valid_utf8(*bytes);
  return json_response(to_text({{"content", text}, {"prompt", text}}));
}

Routes::Reply Routes::chat(const Call& call) {
  const ChatRequest request = THIMBLE_TRY(parse_chat_request(call.request.body));
  THIMBLE_TRY(check_model(request.common.model));
  const Prompt prompt =
      THIMBLE_TRY(chat_prompt(request, generator_.info(), options_.defaults, turns_));
  return generate(call, chunks(AnswerKind::kChat, request.common, prompt), request.common, prompt);
}

Routes::Reply Routes::completion(const Call& call) {
  const CompletionRequest request = THIMBLE_TRY(parse_completion_request(call.request.body));
  THIMBLE_TRY(check_model(request.common.model));
  const Prompt prompt = THIMBLE_TRY(completion_prompt(request, generator_.info()));
  return generate(call, chunks(AnswerKind::kCompletion, request.common, prompt), request.common,
                  prompt);
}

Routes::Reply Routes::response(const Call& call) {
  ResponseRequest request = THIMBLE_TRY(parse_response_request(call.request.body));
  const GenerationFields& common = request.chat.common;
  THIMBLE_TRY(check_model(common.model));
  const ModelInfo& info = generator_.info();
  const Prompt prompt = THIMBLE_TRY(chat_prompt(request.chat, info, options_.defaults, turns_));
  const std::string id = random_id("resp_");
  return generate(
      call,
      {id, make_response_writer({id, base::wall_seconds(), info.name, std::move(request.echo)})},
      common, prompt);
}

Routes::Spelling Routes::chunks(AnswerKind kind, const GenerationFields& fields,
                                const Prompt& prompt) const {
  const ModelInfo& info = generator_.info();
  const std::string id = random_id(kind == AnswerKind::kChat ? "chatcmpl-" : "cmpl-");
  return {id, make_chunk_writer({kind, id, base::wall_seconds(), info.name, options_.fingerprint,
                                 prompt.starts_in_reasoning, fields.include_usage},
                                *info.tokenizer)};
}

Routes::Reply Routes::generate(const Call& call, Spelling spelling, const GenerationFields& fields,
                               const Prompt& prompt) {
  auto request =
      THIMBLE_TRY(generation_request(prompt, fields, generator_.info(), options_.defaults));
  AnswerOptions options;
  options.id = std::move(spelling.id);
  options.writer = std::move(spelling.writer);
  options.request_id = call.id;
  options.delivery = fields.stream ? Delivery::kStream : Delivery::kWhole;
  options.text = {.starts_in_reasoning = prompt.starts_in_reasoning,
                  .think_close = prompt.think_close,
                  .stop = fields.stop,
                  .control = fields.control,
                  .dsml = prompt.dsml,
                  .calls = prompt.calls,
                  .calls_max = prompt.calls_max,
                  .forced = prompt.forced};
  options.with_logprobs = fields.top_logprobs.has_value();
  options.choices = fields.choices;
  options.headers = call.headers;
  options.heartbeat_ms = options_.heartbeat_ms;
  options.remember = rememberer(prompt);
  auto answer = std::make_shared<Answer>(
      std::move(options), call.exchange, generator_, threads_,
      [this](const Answer* done, const AnswerSummary& summary) { finished(done, summary); });
  {
    const std::lock_guard lock(mutex_);
    if (shutting_down_) {
      return tl::unexpected(
          api_error({ErrorCode::kUnavailable, "the server is shutting down", {}}));
    }
    answers_.emplace(answer.get(), answer);
  }
  answer->run(choices_of(std::move(request), fields.choices));
  return std::nullopt;
}

// Keeps the turn that the answer continues, from its beginning, for when it comes back as text.
std::function<void(std::vector<int32_t>)> Routes::rememberer(const Prompt& prompt) {
  if (!prompt.open_turn) return {};
  const auto begin = prompt.ids.begin() + static_cast<std::ptrdiff_t>(prompt.open_turn->begin);
  return [this, place = prompt.open_turn->place,
          turn = std::vector<int32_t>(begin, prompt.ids.end())](std::vector<int32_t> sampled) {
    std::vector<int32_t> ids = turn;
    ids.insert(ids.end(), sampled.begin(), sampled.end());
    turns_.remember(place, std::move(ids));
  };
}

void Routes::finished(const Answer* answer, const AnswerSummary& summary) {
  log_outcome(summary);
  metrics_.add(summary);
  const std::lock_guard lock(mutex_);
  answers_.erase(answer);
}

}  // namespace thimble::server
