// JSON in and out of the API: a body parsed within limits, typed access to its fields, text that is
// always valid UTF-8.
//
// The field readers share one rule: a JSON null counts as absent, a wrong type or a value out of
// range is a 400 that names the field by its whole path. nlohmann's exceptions stay inside.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "server/errors.h"

namespace thimble::server {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // answers keep their fields in reading order

// Bounds on what a body may unfold to, so that a few bytes cannot cost much memory or stack.
inline constexpr uint32_t kJsonDepthMax = 64;
inline constexpr uint64_t kJsonValuesMax = 4'000'000;    // commas
inline constexpr uint64_t kJsonContainersMax = 200'000;  // opening brackets

// The body as one object.
ApiResult<Json> parse_object(std::string_view body);

// Replaces malformed UTF-8 instead of throwing.
std::string to_text(const OrderedJson& json);

// [72, 195]: bytes that may be no text by themselves.
OrderedJson byte_list(std::string_view bytes);

// One object of a request and where it was found. The JSON must outlive it.
class Fields {
 public:
  // REQUIRES: object.is_object().
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  // "stream_options.include_usage"
  std::string path_of(std::string_view name) const;
  // Null when absent or JSON null.
  const Json* find(std::string_view name) const;

  ApiResult<std::optional<bool>> boolean(std::string_view name) const;
  // Whole numbers written as 5.0 count.
  ApiResult<std::optional<int64_t>> integer(std::string_view name, int64_t low, int64_t high) const;
  ApiResult<std::optional<double>> number(std::string_view name, double low, double high) const;
  ApiResult<std::optional<std::string>> string(std::string_view name) const;
  ApiResult<const Json*> array(std::string_view name) const;
  ApiResult<std::optional<Fields>> object(std::string_view name) const;

 private:
  const Json& object_;
  std::string path_;
};

// Any integer type, or a float without a fraction.
std::optional<int64_t> as_integer(const Json& value);

// "a string", "an array": for messages.
std::string_view type_name(const Json& value);

// "messages[3]"
std::string indexed(std::string_view path, size_t index);

}  // namespace thimble::server
