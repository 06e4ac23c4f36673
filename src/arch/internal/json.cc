#include "arch/internal/json.h"

#include <simdjson.h>

#include <algorithm>
#include <unordered_set>

#include "arch/internal/json_numbers.h"
#include "base/terminal.h"

namespace thimble::arch {
namespace {

namespace dom = simdjson::dom;

// Builds our tree out of simdjson's.
class Converter {
 public:
  Result<Json> convert(dom::element element);

 private:
  Result<Json> convert_array(dom::array array);
  Result<Json> convert_object(dom::object object);

  uint64_t values_ = 0;
};

Result<Json> Converter::convert_array(dom::array array) {
  Json::Array out;
  for (const dom::element item : array) out.push_back(THIMBLE_TRY(convert(item)));
  return Json{std::move(out)};
}

Result<Json> Converter::convert_object(dom::object object) {
  Json::Object out;
  std::unordered_set<std::string_view> seen;
  for (const dom::key_value_pair field : object) {
    if (!seen.insert(field.key).second) {
      return fail(ErrorCode::kCorrupt, "the key {} appears twice", in_quotes(field.key));
    }
    Json value = THIMBLE_TRY(convert(field.value));
    out.push_back({std::string(field.key), std::move(value)});
  }
  return Json{std::move(out)};
}

// The types were read from the element, so the value_unsafe() calls cannot fail.
Result<Json> Converter::convert(dom::element element) {
  if (++values_ > kMaxJsonValues) {
    return fail(ErrorCode::kCorrupt, "the JSON has more than {} values", kMaxJsonValues);
  }
  switch (element.type()) {
    case dom::element_type::ARRAY:
      return convert_array(element.get_array().value_unsafe());
    case dom::element_type::OBJECT:
      return convert_object(element.get_object().value_unsafe());
    case dom::element_type::INT64: {
      const int64_t number = element.get_int64().value_unsafe();
      if (number >= 0) return Json{static_cast<uint64_t>(number)};
      return Json{number};
    }
    case dom::element_type::UINT64:
      return Json{element.get_uint64().value_unsafe()};
    case dom::element_type::DOUBLE:
      return Json{element.get_double().value_unsafe()};
    case dom::element_type::STRING:
      return Json{std::string(element.get_string().value_unsafe())};
    case dom::element_type::BOOL:
      return Json{element.get_bool().value_unsafe()};
    case dom::element_type::NULL_VALUE:
      break;
  }
  return Json{nullptr};
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  const Object* object = get<Object>();
  if (object == nullptr) return nullptr;
  const auto it = std::ranges::find(*object, key, &JsonMember::first);
  return it == object->end() ? nullptr : &it->second;
}

Result<Json> parse_json(std::string_view text) {
  dom::parser parser;
  if (const auto error = parser.allocate(std::max<size_t>(text.size(), 32), kMaxJsonDepth)) {
    return fail(ErrorCode::kResourceExhausted, "no memory to parse {} bytes of JSON: {}",
                text.size(), simdjson::error_message(error));
  }
  dom::element root;
  const auto error = parser.parse(text.data(), text.size(), /*realloc_if_needed=*/true).get(root);
  if (error == simdjson::DEPTH_ERROR) {
    return fail(ErrorCode::kCorrupt, "JSON nested deeper than {} levels", kMaxJsonDepth);
  }
  if (error == simdjson::NUMBER_ERROR) {
    if (const auto found = find_unfit_number(text)) {
      return fail(ErrorCode::kCorrupt, "{}; expected a number that fits 64 bits", *found);
    }
  }
  if (error != simdjson::SUCCESS) {
    return fail(ErrorCode::kCorrupt, "not valid JSON: {}", simdjson::error_message(error));
  }
  return Converter().convert(root);
}

std::string brief(const Json& json) {
  if (json.get<std::nullptr_t>() != nullptr) return "null";
  if (const auto* b = json.get<bool>()) return *b ? "true" : "false";
  if (const auto* i = json.get<int64_t>()) return fmt::format("{}", *i);
  if (const auto* u = json.get<uint64_t>()) return fmt::format("{}", *u);
  if (const auto* d = json.get<double>()) return fmt::format("{}", *d);
  if (const auto* s = json.get<std::string>()) return in_quotes(*s);
  if (const auto* object = json.get<Json::Object>()) {
    return fmt::format("an object of {} keys", object->size());
  }
  const auto& array = *json.get<Json::Array>();
  std::string out = "[";
  for (const Json& item : array) {
    if (out.size() > 50) return out + ", ...]";
    if (out.size() > 1) out += ", ";
    out += item.get<Json::Array>() != nullptr ? "[...]" : brief(item);
  }
  return out + "]";
}

std::string in_quotes(std::string_view name) {
  return fmt::format("\"{}\"", base::printable(name));
}

}  // namespace thimble::arch
