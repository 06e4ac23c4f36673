#include "tests/api/json_pattern.h"

namespace thimble::server {
namespace {

using nlohmann::json;

std::string object_mismatch(const json& pattern, const json& value, const std::string& path) {
  const bool open = pattern.contains("...");
  for (const auto& [key, expected] : pattern.items()) {
    if (key == "...") continue;
    if (!value.contains(key)) return path + "." + key + " is missing";
    const std::string inner = mismatch(expected, value[key], path + "." + key);
    if (!inner.empty()) return inner;
  }
  for (const auto& [key, found] : value.items()) {
    if (!open && !pattern.contains(key)) return path + "." + key + " should not be there";
  }
  return {};
}

std::string array_mismatch(const json& pattern, const json& value, const std::string& path) {
  if (pattern.size() != value.size()) {
    return path + " has " + std::to_string(value.size()) + " elements, expected " +
           std::to_string(pattern.size());
  }
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string inner = mismatch(pattern[i], value[i], path + "[" + std::to_string(i) + "]");
    if (!inner.empty()) return inner;
  }
  return {};
}

}  // namespace

std::string mismatch(const json& pattern, const json& value, const std::string& path) {
  if (pattern == "<any>") return {};
  if (pattern == "<string>" && value.is_string()) return {};
  if (pattern == "<number>" && value.is_number()) return {};
  if (pattern == "<bool>" && value.is_boolean()) return {};
  if (pattern.is_object() && value.is_object()) return object_mismatch(pattern, value, path);
  if (pattern.is_array() && value.is_array()) return array_mismatch(pattern, value, path);
  if (pattern == value) return {};
  return path + " is " + value.dump() + ", expected " + pattern.dump();
}

}  // namespace thimble::server
