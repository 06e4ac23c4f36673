#include "text/tools.h"

#include <algorithm>
#include <set>
#include <utility>

#include "text/json_text.h"

namespace thimble::text {
namespace {

using base::fail;

// The last of that name, as parsers have it. Empty: absent or null.
std::string_view member(const std::vector<JsonMember>& members, std::string_view key) {
  for (auto it = members.rbegin(); it != members.rend(); ++it) {
    if (it->key == key) return it->value == "null" ? std::string_view() : it->value;
  }
  return {};
}

std::string printed(std::string_view json, std::string_view otherwise) {
  return json.empty() ? std::string(otherwise) : python_json(json).value_or(std::string(otherwise));
}

Result<void> check_parameters(std::string_view parameters) {
  if (parameters.empty()) return {};
  const auto members = json_members(parameters);
  if (!members) return fail(ErrorCode::kInvalidArgument, "parameters: expected a JSON schema");
  const std::string_view type = member(*members, "type");
  if (members->empty() || (!type.empty() && python_json(type) == "\"object\"")) return {};
  return fail(ErrorCode::kInvalidArgument, "parameters.type: expected \"object\", found {}",
              type.empty() ? "none" : type.substr(0, 64));
}

}  // namespace

bool is_tool_name(std::string_view name) {
  const auto usable = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kToolNameBytesMax &&
         std::all_of(name.begin(), name.end(), usable);
}

// A key stands between quotes in a tag, without escapes.
bool is_parameter_name(std::string_view name) {
  return !name.empty() && name.size() <= kParameterNameBytesMax &&
         std::none_of(name.begin(), name.end(),
                      [](char c) { return c == '"' || static_cast<unsigned char>(c) < 0x20; });
}

Result<Tool> make_tool(std::string_view function_json) {
  const auto members = THIMBLE_TRY(json_members(function_json));
  const auto name = json_string_value(member(members, "name"));
  if (!name || !is_tool_name(*name)) {
    return fail(ErrorCode::kInvalidArgument,
                "name: expected 1 to {} letters, digits, underscores and hyphens",
                kToolNameBytesMax);
  }
  const std::string_view description = member(members, "description");
  if (!description.empty() && !json_string_value(description)) {
    return fail(ErrorCode::kInvalidArgument, "description: expected a string");
  }
  THIMBLE_TRY(check_parameters(member(members, "parameters")));
  return Tool{*name, std::string(function_json)};
}

std::string recipe_tool_line(const Tool& tool) {
  const auto members = json_members(tool.function).value_or(std::vector<JsonMember>{});
  return "{\"name\": " + json_quoted(tool.name) +
         ", \"description\": " + printed(member(members, "description"), "\"\"") +
         ", \"parameters\": " + printed(parameters_of(tool), "{}") + "}";
}

std::string_view parameters_of(const Tool& tool) {
  const auto members = json_members(tool.function).value_or(std::vector<JsonMember>{});
  const std::string_view parameters = member(members, "parameters");
  return parameters.empty() ? std::string_view("{}") : parameters;
}

std::string ref_tool_line(const Tool& tool) { return printed(tool.function, "{}"); }

Result<std::vector<CallParameter>> call_parameters(const ToolCall& call) {
  std::vector<CallParameter> out;
  if (call.arguments.find_first_not_of(" \t\r\n") == std::string::npos) return out;
  const auto members = json_members(call.arguments);
  if (!members) {
    out.push_back({"arguments", true, call.arguments, {}});
    return out;
  }
  std::set<std::string_view> seen;
  for (const JsonMember& one : *members) {
    if (!is_parameter_name(one.key)) {
      return fail(ErrorCode::kInvalidArgument,
                  "arguments: a key of {} bytes that the model's call format cannot hold",
                  one.key.size());
    }
    if (!seen.insert(one.key).second) {
      return fail(ErrorCode::kInvalidArgument, "arguments: key \"{}\" twice",
                  std::string_view(one.key).substr(0, 64));
    }
    if (one.value.starts_with('"')) {
      out.push_back({one.key, true, THIMBLE_TRY(json_string_value(one.value)), {}});
    } else {
      out.push_back({one.key, false, THIMBLE_TRY(python_json(one.value)), std::string(one.value)});
    }
  }
  return out;
}

}  // namespace thimble::text
