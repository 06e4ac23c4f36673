// What a client is told when something is wrong: the OpenAI error object, and the one table from
// ErrorCode to HTTP status.
//
// Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "base/result.h"
#include "net/http.h"

namespace thimble::server {

// What did not fit the context, in tokens.
struct ContextNumbers {
  uint64_t context_tokens = 0;
  uint64_t prompt_tokens = 0;
  std::optional<uint64_t> max_tokens;  // that were asked for
};

struct ApiError {
  uint32_t status = 400;
  std::string message;
  std::optional<std::string> param;  // the request's field: "messages[0].content"
  std::optional<std::string> code;   // what programs switch on: "context_length_exceeded"
  std::optional<uint32_t> retry_after_s;
  std::optional<ContextNumbers> context = {};
};

// THIMBLE_TRY passes these on as it does a Result.
template <class T>
using ApiResult = tl::expected<T, ApiError>;

// A 400 about one field.
[[nodiscard]] tl::unexpected<ApiError> bad_field(std::string param, std::string message);
// A 400 about something that thimble understands but cannot do yet.
[[nodiscard]] tl::unexpected<ApiError> not_yet(std::string param, std::string message);

// A 400 about a field whose value a lower module could not take, for the reason it gives.
[[nodiscard]] tl::unexpected<ApiError> refused_field(std::string param, const Error& why);

uint32_t http_status(ErrorCode code);

// Of this status, for what has no ErrorCode; a 503 says when to come back.
ApiError status_error(uint32_t status, std::string message);

// An error of a lower module, as the client sees it.
ApiError api_error(const Error& error);
// The same of a request that was not accepted: kResourceExhausted there means a full queue (429,
// the client may slow down), anywhere else memory (503).
ApiError refusal_error(const Error& error);

// {"error": {"message", "type", "param", "code"}}, and the context's numbers under "thimble" as the
// models' list and `usage` name them; valid UTF-8 whatever the message holds.
std::string error_json(const ApiError& error);

net::HttpResponse error_response(const ApiError& error);

}  // namespace thimble::server
