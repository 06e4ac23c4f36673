#include "server/internal/json.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace thimble::server {
namespace {

ApiError body_error(std::string message) {
  return {400, std::move(message), {}, "invalid_json", {}};
}

// Counts brackets and commas outside strings; malformed text is the parser's to refuse.
std::optional<ApiError> check_size(std::string_view body) {
  uint32_t depth = 0;
  uint64_t values = 0;
  uint64_t containers = 0;
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    in_string = c == '"';
    if (c == ',') ++values;
    if (c == ']' || c == '}') depth -= depth > 0 ? 1 : 0;
    if (c != '[' && c != '{') continue;
    ++containers;
    if (++depth > kJsonDepthMax) {
      return body_error(fmt::format("the body nests deeper than {} levels", kJsonDepthMax));
    }
  }
  if (values > kJsonValuesMax || containers > kJsonContainersMax) {
    return body_error(fmt::format("the body has more than {} values or {} arrays and objects",
                                  kJsonValuesMax, kJsonContainersMax));
  }
  return {};
}

tl::unexpected<ApiError> wrong_type(const std::string& path, const char* expected,
                                    const Json& found) {
  return bad_field(path, fmt::format("'{}' must be {}, not {}", path, expected, type_name(found)));
}

}  // namespace

ApiResult<Json> parse_object(std::string_view body) {
  if (auto error = check_size(body)) return tl::unexpected(std::move(*error));
  try {
    Json parsed = Json::parse(body);
    if (!parsed.is_object()) {
      return tl::unexpected(
          body_error(fmt::format("the body must be a JSON object, not {}", type_name(parsed))));
    }
    return parsed;
  } catch (const Json::parse_error& error) {
    return tl::unexpected(
        body_error(fmt::format("the body is not valid JSON in UTF-8: error at byte {} of {}",
                               std::min(error.byte, body.size()), body.size())));
  } catch (const Json::out_of_range&) {
    return tl::unexpected(body_error("the body holds a number too large for a double"));
  } catch (const std::exception& error) {
    return tl::unexpected(
        ApiError{500, fmt::format("parsing the body: {}", error.what()), {}, {}, {}});
  }
}

std::string to_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson byte_list(std::string_view bytes) {
  OrderedJson out = OrderedJson::array();
  for (const char byte : bytes) out.push_back(static_cast<uint8_t>(byte));
  return out;
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

ApiResult<std::optional<bool>> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return wrong_type(path_of(name), "true or false", *value);
  return value->get<bool>();
}

ApiResult<std::optional<int64_t>> Fields::integer(std::string_view name, int64_t low,
                                                  int64_t high) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrong_type(path_of(name), "a whole number", *value);
  const std::optional<int64_t> number = as_integer(*value);
  if (!number || *number < low || *number > high) {
    return bad_field(path_of(name), fmt::format("'{}' must be a whole number from {} to {}, not {}",
                                                path_of(name), low, high, value->dump()));
  }
  return *number;
}

ApiResult<std::optional<double>> Fields::number(std::string_view name, double low,
                                                double high) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrong_type(path_of(name), "a number", *value);
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) {
    return bad_field(path_of(name), fmt::format("'{}' must be from {} to {}, not {}", path_of(name),
                                                low, high, value->dump()));
  }
  return number;
}

ApiResult<std::optional<std::string>> Fields::string(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong_type(path_of(name), "a string", *value);
  return value->get<std::string>();
}

ApiResult<const Json*> Fields::array(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) return wrong_type(path_of(name), "an array", *value);
  return value;
}

ApiResult<std::optional<Fields>> Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) return wrong_type(path_of(name), "an object", *value);
  return Fields(*value, path_of(name));
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return {};
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return {};
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(number) != number || std::fabs(number) > kExact) return {};
  return static_cast<int64_t>(number);
}

std::string_view type_name(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  return value.is_array() ? "an array" : "an object";
}

std::string indexed(std::string_view path, size_t index) {
  return fmt::format("{}[{}]", path, index);
}

}  // namespace thimble::server
