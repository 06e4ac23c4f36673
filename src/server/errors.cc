#include "server/errors.h"

#include <nlohmann/json.hpp>

#include "server/internal/json.h"

namespace thimble::server {
namespace {

constexpr uint32_t kRetryAfterSeconds = 1;

const char* type_of(uint32_t status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    case 505:  // the client speaks another protocol
      return "invalid_request_error";
    default:
      return status < 500 ? "invalid_request_error" : "internal_error";
  }
}

OrderedJson text_or_null(const std::optional<std::string>& text) {
  return text ? OrderedJson(*text) : OrderedJson(nullptr);
}

}  // namespace

tl::unexpected<ApiError> bad_field(std::string param, std::string message) {
  return tl::unexpected(ApiError{400, std::move(message), std::move(param), {}, {}});
}

tl::unexpected<ApiError> not_yet(std::string param, std::string message) {
  return tl::unexpected(ApiError{400, std::move(message), std::move(param), "not_supported", {}});
}

tl::unexpected<ApiError> refused_field(std::string param, const Error& why) {
  std::string message = fmt::format("'{}': {}", param, why.message);
  if (why.code == ErrorCode::kUnsupported) return not_yet(std::move(param), std::move(message));
  return bad_field(std::move(param), std::move(message));
}

uint32_t http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kResourceExhausted:  // memory: not the client's pace
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

ApiError status_error(uint32_t status, std::string message) {
  ApiError out{status, std::move(message), {}, {}, {}};
  if (status == 503) out.retry_after_s = kRetryAfterSeconds;
  return out;
}

ApiError api_error(const Error& error) {
  ApiError out = status_error(http_status(error.code), error.describe());
  if (error.code == ErrorCode::kUnsupported) out.code = "not_supported";
  if (error.code == ErrorCode::kResourceExhausted) out.code = "out_of_memory";
  return out;
}

ApiError refusal_error(const Error& error) {
  ApiError out = api_error(error);
  if (error.code != ErrorCode::kResourceExhausted) return out;
  out.status = 429;
  out.code = "queue_full";
  return out;
}

std::string error_json(const ApiError& error) {
  OrderedJson out;
  out["error"] = {{"message", error.message},
                  {"type", type_of(error.status)},
                  {"param", text_or_null(error.param)},
                  {"code", text_or_null(error.code)}};
  if (const auto& context = error.context) {
    out["error"]["thimble"] = {
        {"max_model_len", context->context_tokens},
        {"prompt_tokens", context->prompt_tokens},
        {"max_tokens", context->max_tokens ? OrderedJson(*context->max_tokens) : OrderedJson()}};
  }
  return to_text(out);
}

net::HttpResponse error_response(const ApiError& error) {
  net::HttpResponse response{
      error.status, {{"Content-Type", "application/json"}}, error_json(error)};
  if (error.retry_after_s) {
    response.headers.push_back({"Retry-After", std::to_string(*error.retry_after_s)});
  }
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace thimble::server
