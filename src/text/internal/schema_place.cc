#include "text/internal/schema_place.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

#include "text/json_schema.h"
#include "text/json_text.h"

namespace thimble::text {
namespace {

constexpr std::array<std::string_view, 13> kAnnotations = {
    "title",     "description", "default", "examples", "example",     "deprecated",   "readOnly",
    "writeOnly", "$comment",    "$schema", "$defs",    "definitions", "discriminator"};
constexpr std::array<std::string_view, 3> kObjectKeywords = {"properties", "required",
                                                             "additionalProperties"};
constexpr std::array<std::string_view, 4> kArrayKeywords = {"items", "prefixItems", "minItems",
                                                            "maxItems"};
constexpr std::array<std::string_view, 2> kStringKeywords = {"minLength", "maxLength"};
constexpr std::array<std::string_view, 4> kNumberKeywords = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
// Each says all that a value has to be.
constexpr std::array<std::string_view, 6> kWholeKeywords = {"$ref",  "enum",  "const",
                                                            "anyOf", "oneOf", "allOf"};

struct TypeName {
  std::string_view name;
  uint32_t bits;
};
constexpr std::array<TypeName, 7> kTypeNames{{{"object", kTypeObject},
                                              {"array", kTypeArray},
                                              {"string", kTypeString},
                                              {"number", kTypeNumber | kTypeInteger},
                                              {"integer", kTypeInteger},
                                              {"boolean", kTypeBoolean},
                                              {"null", kTypeNull}}};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_any(const SchemaPlace& place, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return keyword(place, name) != nullptr; });
}

// Keywords whose one value changes nothing.
bool is_neutral(const SchemaPlace& place, std::string_view name, const SchemaJson& value) {
  if (name == "uniqueItems" || name == "additionalItems") return value == false;
  return name == "$id" && place.parent == nullptr && place.name == "#";
}

bool is_of_one_type(std::string_view name) {
  return is_among(name, kObjectKeywords) || is_among(name, kArrayKeywords) ||
         is_among(name, kStringKeywords) || is_among(name, kNumberKeywords);
}

// Long names and deep places are cut, errors are for people.
constexpr size_t kShownBytes = 64;

std::string in_quotes(std::string_view name) {
  return fmt::format("'{}'", name.substr(0, kShownBytes));
}

Result<uint32_t> type_named(const SchemaPlace& place, const SchemaJson& name) {
  for (const TypeName& type : kTypeNames) {
    if (name == type.name) return type.bits;
  }
  return schema_error(ErrorCode::kInvalidArgument, place,
                      "'type' must be object, array, string, number, integer, boolean or null, or "
                      "a list of these");
}

// "~1" and "~0" of JSON pointers.
std::string unescaped(std::string_view piece) {
  std::string out;
  for (size_t i = 0; i < piece.size(); ++i) {
    if (piece[i] == '~' && i + 1 < piece.size() && (piece[i + 1] == '0' || piece[i + 1] == '1')) {
      out += piece[++i] == '0' ? '~' : '/';
    } else {
      out += piece[i];
    }
  }
  return out;
}

const SchemaJson* child(const SchemaJson& json, const std::string& name) {
  if (json.is_object()) {
    const auto at = json.find(name);
    return at == json.end() ? nullptr : &*at;
  }
  size_t index = 0;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data(), end, index);
  if (!json.is_array() || error != std::errc() || at != end || index >= json.size()) return nullptr;
  return &json[index];
}

}  // namespace

Result<SchemaJson> read_schema(std::string_view schema) {
  if (schema.size() > kSchemaBytesMax) {
    return base::fail(ErrorCode::kUnsupported, "the schema has {} bytes, at most {} are supported",
                      schema.size(), kSchemaBytesMax);
  }
  THIMBLE_TRY(python_json(schema));  // well-formed, and no deeper than kJsonTextDepthMax
  SchemaJson json = SchemaJson::parse(schema, nullptr, false);
  if (json.is_discarded()) {  // a number beyond a double
    return base::fail(ErrorCode::kInvalidArgument, "the schema is not JSON that can be read");
  }
  return json;
}

std::string pointer_of(const SchemaPlace& place) {
  std::vector<const SchemaPlace*> path;
  for (const SchemaPlace* at = &place; at != nullptr; at = at->parent) path.push_back(at);
  std::string out;
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    if (!(*at)->keyword.empty()) out += fmt::format("/{}", (*at)->keyword);
    if ((*at)->parent != nullptr && !(*at)->name.empty()) out += '/';
    out += (*at)->name.substr(0, kShownBytes);
  }
  return out;
}

tl::unexpected<Error> schema_error(ErrorCode code, const SchemaPlace& place,
                                   std::string_view what) {
  return base::fail(code, "{}: {}", pointer_of(place), what);
}

const SchemaJson* keyword(const SchemaPlace& place, std::string_view name) {
  const auto at = place.json->find(name);
  return at == place.json->end() ? nullptr : &*at;
}

Result<void> check_keywords(const SchemaPlace& place) {
  std::string_view whole;
  for (const std::string_view name : kWholeKeywords) {
    if (keyword(place, name) == nullptr) continue;
    if (!whole.empty()) {
      return schema_error(ErrorCode::kUnsupported, place,
                          fmt::format("'{}' beside '{}' is not supported", name, whole));
    }
    whole = name;
  }
  const bool listed = whole == "enum" || whole == "const";
  for (const auto& [name, value] : place.json->items()) {
    if (is_among(name, kAnnotations) || name == whole || name == "nullable") continue;
    const bool known = name == "type" || is_of_one_type(name) || is_neutral(place, name, value);
    if (!known) {
      return schema_error(ErrorCode::kUnsupported, place, in_quotes(name) + " is not supported");
    }
    const bool fits = whole.empty() || (listed && name == "type") || is_neutral(place, name, value);
    if (!fits) {
      return schema_error(ErrorCode::kUnsupported, place,
                          fmt::format("{} beside '{}' is not supported", in_quotes(name), whole));
    }
  }
  return {};
}

Result<uint32_t> types_of(const SchemaPlace& place) {
  if (const SchemaJson* type = keyword(place, "type")) {
    if (!type->is_array()) return type_named(place, *type);
    uint32_t types = 0;
    for (const SchemaJson& name : *type) types |= THIMBLE_TRY(type_named(place, name));
    if (types == 0) return schema_error(ErrorCode::kInvalidArgument, place, "'type' is empty");
    return types;
  }
  uint32_t types = 0;
  if (has_any(place, kObjectKeywords)) types |= kTypeObject;
  if (has_any(place, kArrayKeywords)) types |= kTypeArray;
  if (has_any(place, kStringKeywords)) types |= kTypeString;
  if (has_any(place, kNumberKeywords)) types |= kTypeNumber | kTypeInteger;
  return types == 0 ? static_cast<uint32_t>(kTypeAny) : types;
}

uint32_t type_of_value(const SchemaJson& value) {
  if (value.is_object()) return kTypeObject;
  if (value.is_array()) return kTypeArray;
  if (value.is_string()) return kTypeString;
  if (value.is_boolean()) return kTypeBoolean;
  if (value.is_null()) return kTypeNull;
  if (value.is_number_integer()) return kTypeInteger;
  const double number = value.get<double>();
  return number == std::floor(number) ? kTypeInteger : kTypeNumber;
}

Result<std::optional<uint32_t>> size_keyword(const SchemaPlace& place, std::string_view name) {
  const SchemaJson* value = keyword(place, name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number >= 0 && number <= 2147483648.0 && number == std::floor(number)) {
    return static_cast<uint32_t>(number);
  }
  return schema_error(ErrorCode::kInvalidArgument, place,
                      fmt::format("'{}' must be a whole number from 0 to 2^31", name));
}

Result<const SchemaJson*> resolve_ref(const SchemaJson& root, const SchemaPlace& place) {
  const SchemaJson& ref = *keyword(place, "$ref");
  std::string_view path = ref.is_string() ? ref.get_ref<const std::string&>() : std::string_view();
  if (!path.starts_with('#') || (path.size() > 1 && path[1] != '/')) {
    return schema_error(ErrorCode::kUnsupported, place,
                        "'$ref' must be a pointer into this schema, such as #/$defs/NAME");
  }
  path.remove_prefix(1);
  const SchemaJson* at = &root;
  while (!path.empty() && at != nullptr) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    at = child(*at, unescaped(path.substr(0, end)));
    path.remove_prefix(end);
  }
  if (at != nullptr) return at;
  return schema_error(
      ErrorCode::kInvalidArgument, place,
      fmt::format("'$ref' leads nowhere: {}", in_quotes(ref.get_ref<const std::string&>())));
}

}  // namespace thimble::text
