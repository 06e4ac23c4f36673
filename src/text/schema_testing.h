// For tests of constrained answers: schemas from a seed, a validator written once more, and a
// stand-in for a model that picks any token it may.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "text/token_masker.h"

namespace thimble::text {

using TestJson = nlohmann::json;

// Naive: what the keywords that compile_json_schema() knows say, by the standard. A schema without
// a type lets every type through.
class SchemaValidator {
 public:
  explicit SchemaValidator(const TestJson& root) : root_(root) {}

  bool fits(const TestJson& value) const { return fits(root_, value); }

 private:
  bool fits(const TestJson& schema, const TestJson& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (value.is_null() && schema.value("nullable", false)) return true;
    if (schema.contains("$ref")) {
      const auto at = TestJson::json_pointer(schema["$ref"].get<std::string>().substr(1));
      return fits(root_[at], value);
    }
    if (schema.contains("type") && !type_fits(schema["type"], value)) return false;
    if (schema.contains("const") && schema["const"] != value) return false;
    if (schema.contains("enum") && count_equal(schema["enum"], value) == 0) return false;
    if (schema.contains("anyOf") && count_fitting(schema["anyOf"], value) == 0) return false;
    if (schema.contains("oneOf") && count_fitting(schema["oneOf"], value) != 1) return false;
    if (value.is_object()) return object_fits(schema, value);
    if (value.is_array()) return array_fits(schema, value);
    if (value.is_string()) return length_fits(schema, value.get<std::string>());
    return !value.is_number() || number_fits(schema, value.get<double>());
  }

  static bool type_fits(const TestJson& type, const TestJson& value) {
    if (type.is_array()) {
      return std::any_of(type.begin(), type.end(),
                         [&](const TestJson& one) { return type_fits(one, value); });
    }
    if (type == "integer") {
      return value.is_number() && value.get<double>() == std::floor(value.get<double>());
    }
    return value.is_number() ? type == "number" : type == value.type_name();
  }

  static size_t count_equal(const TestJson& list, const TestJson& value) {
    return static_cast<size_t>(std::count(list.begin(), list.end(), value));
  }

  long count_fitting(const TestJson& list, const TestJson& value) const {
    return std::count_if(list.begin(), list.end(),
                         [&](const TestJson& one) { return fits(one, value); });
  }

  bool object_fits(const TestJson& schema, const TestJson& value) const {
    for (const TestJson& name : schema.value("required", TestJson::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    const TestJson properties = schema.value("properties", TestJson::object());
    for (const auto& [name, of] : value.items()) {
      const TestJson rule = properties.contains(name)
                                ? properties[name]
                                : schema.value("additionalProperties", TestJson(true));
      if (!fits(rule, of)) return false;
    }
    return true;
  }

  bool array_fits(const TestJson& schema, const TestJson& value) const {
    if (value.size() < schema.value("minItems", 0U)) return false;
    if (value.size() > schema.value("maxItems", UINT32_MAX)) return false;
    const TestJson prefix = schema.value("prefixItems", TestJson::array());
    for (size_t i = 0; i < value.size(); ++i) {
      const TestJson rule = i < prefix.size() ? prefix[i] : schema.value("items", TestJson(true));
      if (!fits(rule, value[i])) return false;
    }
    return true;
  }

  static bool length_fits(const TestJson& schema, const std::string& text) {
    const auto characters =
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
    return characters >= schema.value("minLength", 0) &&
           characters <= schema.value("maxLength", INT64_MAX);
  }

  static bool number_fits(const TestJson& schema, double number) {
    return number >= schema.value("minimum", -INFINITY) &&
           number <= schema.value("maximum", INFINITY) &&
           number > schema.value("exclusiveMinimum", -INFINITY) &&
           number < schema.value("exclusiveMaximum", INFINITY);
  }

  const TestJson& root_;
};

// Schemas that compile, most of them: of every keyword, with a definition that refers to itself.
class SchemaMaker {
 public:
  explicit SchemaMaker(uint64_t seed) : random_(seed) {}

  TestJson make() {
    TestJson schema = any(3);
    TestJson node = any(2);
    if (schema.is_object() && random_.below(2) == 0) {
      schema = {{"type", "object"},
                {"properties", {{"first", schema}, {"node", {{"$ref", "#/$defs/node"}}}}},
                {"required", {"node"}}};
    }
    if (schema.is_object()) {
      TestJson loop = {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/node"}}}}};
      schema["$defs"]["node"] = {{"type", "object"},
                                 {"properties", {{"value", node}, {"next", loop}}},
                                 {"required", {"next"}}};
    }
    return schema;
  }

 private:
  TestJson any(int depth) {
    switch (random_.below(depth > 0 ? 14 : 8)) {
      case 0:
        return string();
      case 1:
        return number();
      case 2:
        return {{"type", "boolean"}};
      case 3:
        return {{"type", {"null", "integer"}}};
      case 4:
        return {{"enum", {"red", "redder", "\xC3\xA9\n", 1, 12, nullptr, {{"a", {1}}}}}};
      case 5:
        return {{"const", random_.below(2) == 0 ? TestJson("x\"y") : TestJson(-2.5)}};
      case 6:
        return {{"type", "string"}, {"enum", {"a", "b"}}, {"nullable", true}};
      case 7:
        return random_.below(4) == 0 ? TestJson(true) : string();
      case 8:
      case 9:
      case 10:
        return object(depth - 1);
      case 11:
      case 12:
        return array(depth - 1);
      default:
        return {{random_.below(3) == 0 ? "oneOf" : "anyOf", {any(depth - 1), any(depth - 1)}}};
    }
  }

  TestJson string() {
    TestJson out = {{"type", "string"}};
    if (random_.below(2) == 0) out["minLength"] = random_.below(4);
    if (random_.below(2) == 0) out["maxLength"] = 3 + random_.below(9);
    return out;
  }

  TestJson number() {
    const bool whole = random_.below(2) == 0;
    TestJson out = {{"type", whole ? "integer" : "number"}};
    const auto low = static_cast<int64_t>(random_.below(300)) - 150;
    if (random_.below(2) == 0) out[random_.below(2) == 0 ? "minimum" : "exclusiveMinimum"] = low;
    if (random_.below(2) == 0) {
      out[random_.below(2) == 0 ? "maximum" : "exclusiveMaximum"] =
          low + 2 + static_cast<int64_t>(random_.below(2000));
    }
    return out;
  }

  TestJson object(int depth) {
    TestJson out = {{"type", "object"}};
    for (const char* name : {"a", "ab", "n\xC3\xA4me", "q\"", "z"}) {
      if (random_.below(2) == 0) continue;
      out["properties"][name] = any(depth);
      if (random_.below(2) == 0) out["required"].push_back(name);
    }
    if (random_.below(3) == 0) out["additionalProperties"] = any(depth);
    return out;
  }

  TestJson array(int depth) {
    TestJson out = {{"type", "array"}};
    if (random_.below(3) == 0) out["prefixItems"] = {any(depth), any(depth)};
    if (random_.below(3) > 0 || !out.contains("prefixItems")) out["items"] = any(depth);
    const bool open = out.contains("items");
    if (random_.below(2) == 0) out["minItems"] = random_.below(open ? 4 : 2);
    if (random_.below(2) == 0) out["maxItems"] = 3 + random_.below(3);
    return out;
  }

  base::SplitMix64 random_;
};

inline bool has_bit(const std::vector<uint64_t>& bits, int32_t token) {
  return ((bits[static_cast<size_t>(token) / 64] >> (token % 64)) & 1) != 0;
}

// Any token that may come, more often one that closes something. Empty: nothing may.
inline std::optional<int32_t> pick_token(const TokenTrie& trie, const std::vector<uint64_t>& bits,
                                         base::SplitMix64& random) {
  std::vector<int32_t> all;
  std::vector<int32_t> closing;
  for (int32_t id = 0; id < static_cast<int32_t>(trie.vocab_size()); ++id) {
    if (!has_bit(bits, id)) continue;
    all.push_back(id);
    const bool closes = trie.bytes_of(id).find_first_of("\"]},") != std::string_view::npos;
    if (closes) closing.push_back(id);
  }
  if (all.empty()) return std::nullopt;
  const auto& from = !closing.empty() && random.below(3) > 0 ? closing : all;
  return from[random.below(from.size())];
}

}  // namespace thimble::text
