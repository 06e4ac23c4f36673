// An OpenAI-compatible server as the evaluations see it: prompts in, greedy answers out.
//
// Works with what the server offers: plain completions, else chat; log-probs, else without; how
// much of a prompt was cached, if it says. notes() tells what was missing. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_client.h"

namespace thimble::app {

struct EndpointOptions {
  std::string url;      // with or without /v1
  std::string api_key;  // may be empty
  std::string model;    // empty: the first that the server lists
  std::string replay;   // thimble's request field; empty: not sent
};

struct AnswerToken {
  std::string text;
  double logprob = 0;
};

struct EndpointAnswer {
  std::string text;                 // reasoning first
  std::vector<AnswerToken> tokens;  // empty without log-probs
  // As far as the server says.
  std::optional<uint64_t> prompt_tokens;
  std::optional<uint64_t> cached_tokens;
  std::optional<uint64_t> replayed_tokens;
};

// What a body of an answer says; kCorrupt when it is none.
Result<EndpointAnswer> parse_answer(std::string_view body);

class Endpoint {
 public:
  static Result<Endpoint> open(const EndpointOptions& options);

  // kBypass asks the server, in the ways servers have for that, not to use its cache: check
  // cached_tokens to see whether it did not.
  enum class Cache { kUse, kBypass };
  // At temperature 0.
  Result<EndpointAnswer> complete(const std::string& prompt, uint32_t tokens, Cache cache);

  const std::string& model() const { return options_.model; }
  std::string url() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Endpoint(EndpointOptions options, net::HttpUrl url)
      : options_(std::move(options)), url_(std::move(url)) {}
  Result<void> find_model();
  std::string body(const std::string& prompt, uint32_t tokens, Cache cache) const;
  Result<net::HttpResponse> send(const char* method, const std::string& path,
                                 std::string content) const;
  bool give_up_something(uint32_t status, Cache cache);

  EndpointOptions options_;
  net::HttpUrl url_;
  bool chat_ = false;
  bool logprobs_ = true;
  bool bypass_fields_ = true;
  std::vector<std::string> notes_;
};

}  // namespace thimble::app
