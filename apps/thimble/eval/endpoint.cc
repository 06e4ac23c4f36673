#include "apps/thimble/eval/endpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/terminal.h"

namespace thimble::app {
namespace {

using Json = nlohmann::json;

// What lies at `pointer`, or null.
const Json& at(const Json& json, const char* pointer) {
  static const Json nothing;
  const Json::json_pointer place(pointer);
  return json.contains(place) ? json.at(place) : nothing;
}

std::string text_at(const Json& json, const char* pointer) {
  const Json& found = at(json, pointer);
  return found.is_string() ? found.get<std::string>() : "";
}

// The first of these places that holds a count.
std::optional<uint64_t> count_at(const Json& json, std::initializer_list<const char*> pointers) {
  for (const char* pointer : pointers) {
    const Json& found = at(json, pointer);
    if (found.is_number_unsigned()) return found.get<uint64_t>();
  }
  return std::nullopt;
}

// [{"token", "logprob"}], as chat answers have it.
void add_tokens(const Json& list, std::vector<AnswerToken>& tokens) {
  if (!list.is_array()) return;
  for (const Json& entry : list) {
    const Json& logprob = at(entry, "/logprob");
    if (logprob.is_number()) tokens.push_back({text_at(entry, "/token"), logprob.get<double>()});
  }
}

// Two lists beside each other, as plain completions have it.
void add_tokens(const Json& texts, const Json& logprobs, std::vector<AnswerToken>& tokens) {
  if (!texts.is_array() || !logprobs.is_array()) return;
  for (size_t i = 0; i < std::min(texts.size(), logprobs.size()); ++i) {
    if (!texts[i].is_string() || !logprobs[i].is_number()) continue;
    tokens.push_back({texts[i].get<std::string>(), logprobs[i].get<double>()});
  }
}

std::string error_message(const net::HttpResponse& response) {
  const Json json = Json::parse(response.body, nullptr, false);
  for (const char* place : {"/error/message", "/message", "/detail", "/error"}) {
    if (const std::string message = text_at(json, place); !message.empty()) {
      return base::printable(message, 300);
    }
  }
  return base::printable(response.body, 300);
}

}  // namespace

Result<EndpointAnswer> parse_answer(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  const Json& choice = at(json, "/choices/0");
  if (!choice.is_object()) {
    return base::fail(ErrorCode::kCorrupt, "expected an answer with choices, found \"{}\"",
                      base::printable(body, 120));
  }
  EndpointAnswer answer;
  const std::string reasoning = text_at(choice, "/message/reasoning_content");
  answer.text = !reasoning.empty() ? reasoning : text_at(choice, "/message/reasoning");
  for (const char* place : {"/message/content", "/text"}) answer.text += text_at(choice, place);
  add_tokens(at(choice, "/logprobs/reasoning_content"), answer.tokens);
  add_tokens(at(choice, "/logprobs/content"), answer.tokens);
  add_tokens(at(choice, "/logprobs/tokens"), at(choice, "/logprobs/token_logprobs"), answer.tokens);
  answer.prompt_tokens = count_at(json, {"/usage/prompt_tokens"});
  answer.cached_tokens = count_at(json, {"/usage/prompt_tokens_details/cached_tokens",
                                         "/usage/prompt_cache_hit_tokens", "/timings/cache_n"});
  answer.replayed_tokens = count_at(json, {"/usage/thimble/replayed_tokens"});
  return answer;
}

Result<Endpoint> Endpoint::open(const EndpointOptions& options) {
  auto url = THIMBLE_TRY(base::in(net::parse_http_url(options.url), "--url"));
  if (!url.path.ends_with("/v1")) url.path += "/v1";
  Endpoint endpoint(options, std::move(url));
  if (endpoint.options_.model.empty()) THIMBLE_TRY(endpoint.find_model());
  return endpoint;
}

std::string Endpoint::url() const {
  return fmt::format("http://{}{}", url_.authority(), url_.path);
}

Result<void> Endpoint::find_model() {
  const auto response = THIMBLE_TRY(send("GET", "/models", ""));
  const Json json = Json::parse(response.body, nullptr, false);
  options_.model = text_at(json, "/data/0/id");
  if (response.status == 200 && !options_.model.empty()) return {};
  return base::fail(ErrorCode::kNotFound,
                    "{}/models answers {} and lists no model ({}); --model names one", url(),
                    response.status, error_message(response));
}

Result<net::HttpResponse> Endpoint::send(const char* method, const std::string& path,
                                         std::string content) const {
  net::HttpCall call;
  call.method = method;
  call.target = url_.path + path;
  call.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
  if (!options_.api_key.empty()) {
    call.headers.push_back({"Authorization", "Bearer " + options_.api_key});
  }
  call.body = std::move(content);
  return net::http_call(url_, call);
}

std::string Endpoint::body(const std::string& prompt, uint32_t tokens, Cache cache) const {
  Json json = {{"model", options_.model}, {"temperature", 0}, {"seed", 0}, {"max_tokens", tokens}};
  if (chat_) {
    Json turn = {{"role", "user"}, {"content", prompt}};
    json["messages"] = Json::array({std::move(turn)});
    if (logprobs_) json["logprobs"] = true;
  } else {
    json["prompt"] = prompt;
    if (logprobs_) json["logprobs"] = 1;
  }
  if (!options_.replay.empty()) json["replay"] = options_.replay;
  if (cache == Cache::kBypass && bypass_fields_) {
    json["cache_prompt"] = false;                                           // llama.cpp
    json["cache_salt"] = fmt::format("once-{:016x}", base::entropy_u64());  // vLLM
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Something that the server may not know and that can be left out; false when nothing is left.
bool Endpoint::give_up_something(uint32_t status, Cache cache) {
  if ((status == 404 || status == 405 || status == 501) && !chat_) {
    chat_ = true;
    notes_.emplace_back("The server has no plain completions: the texts are sent as chat turns.");
    return true;
  }
  if (status != 400 && status != 422 && status != 501) return false;
  if (cache == Cache::kBypass && bypass_fields_) {
    bypass_fields_ = false;
    return true;
  }
  if (!logprobs_) return false;
  logprobs_ = false;
  notes_.emplace_back("The server gives no log-probs: only the answers' texts are compared.");
  return true;
}

Result<EndpointAnswer> Endpoint::complete(const std::string& prompt, uint32_t tokens, Cache cache) {
  while (true) {
    const char* const path = chat_ ? "/chat/completions" : "/completions";
    const auto response = THIMBLE_TRY(send("POST", path, body(prompt, tokens, cache)));
    if (response.status == 200) {
      auto answer = THIMBLE_TRY(base::in(parse_answer(response.body), url() + path));
      if (answer.tokens.empty() && !answer.text.empty() && logprobs_) {
        logprobs_ = false;
        notes_.emplace_back("The server sends no log-probs: only the answers' texts are compared.");
      }
      return answer;
    }
    if (give_up_something(response.status, cache)) continue;
    return base::fail(ErrorCode::kIo, "{}{} answers {}: {}", url(), path, response.status,
                      error_message(response));
  }
}

}  // namespace thimble::app
