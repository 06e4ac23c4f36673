// Errors as values: what the world did (a file, a request, memory) that was not as hoped.
//
// A Result<T> holds a T or an Error. Errors say what was found, what was expected, and where; each
// level that passes one on may add a step with `in()`. Mistakes of this program are CHECKs instead.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace thimble::base {

enum class ErrorCode {
  kInvalidArgument,    // the caller's value is unusable (flag, request field, token id)
  kNotFound,           // a file, tensor or name that should exist does not
  kCorrupt,            // a file's content contradicts itself or what it was checked against
  kUnsupported,        // understood, but not something this build or model can do
  kResourceExhausted,  // memory, queue or context is full
  kUnavailable,        // try again later (shutting down, busy)
  kCancelled,          // the caller went away
  kIo,                 // the operating system refused
  kInternal,           // a library threw something unexpected
};

const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::vector<std::string> steps;  // innermost first: "layers.3", "loading /models/x"

  // "loading DIR: layers.3: message"
  std::string describe() const;
};

template <class T>
using Result = tl::expected<T, Error>;

template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...), {}});
}

// Adds the step an error passed through.
[[nodiscard]] inline Error in(Error error, std::string_view step) {
  error.steps.emplace_back(step);
  return error;
}

template <class T>
[[nodiscard]] Result<T> in(Result<T> result, std::string_view step) {
  if (!result) return tl::unexpected<Error>(in(std::move(result).error(), step));
  return result;
}

// Moves the value out; nothing for a Result<void>. REQUIRES: `result` holds one. A module may have
// an error type of its own, hence E.
template <class T, class E>
T take_value(tl::expected<T, E>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace thimble::base

namespace thimble {
using base::Error;
using base::ErrorCode;
using base::Result;
}  // namespace thimble

// Value of a Result, or return its error from the enclosing function:
//   auto config = THIMBLE_TRY(parse_config(text));
// It stands alone on its statement (`x = THIMBLE_TRY(...);`, `return THIMBLE_TRY(...);` or bare):
// a return out of the middle of an expression leaks the temporaries that were already made.
#define THIMBLE_TRY(expression)                                                \
  __extension__({                                                              \
    auto try_result_ = (expression);                                           \
    if (!try_result_) return ::tl::unexpected(std::move(try_result_).error()); \
    ::thimble::base::take_value(std::move(try_result_));                       \
  })
