#include "server/internal/tool_fields.h"

#include <algorithm>

#include "server/internal/spelled.h"
#include "text/call_grammar.h"
#include "text/json_text.h"

namespace thimble::server {
namespace {

// A missing type counts as "function".
ApiResult<void> check_type(const Fields& fields) {
  const auto type = THIMBLE_TRY(fields.string("type"));
  if (!type || *type == "function") return {};
  const std::string path = fields.path_of("type");
  return not_yet(path, fmt::format("'{}' must be 'function'; no other type is supported", path));
}

// A flat tool's function: all but its type.
std::string without_type(std::string_view tool) {
  std::string out = "{";
  for (const auto& member : text::json_members(tool).value_or(std::vector<text::JsonMember>{})) {
    if (member.key == "type") continue;
    if (out.size() > 1) out += ", ";
    out += text::json_quoted(member.key) + ": ";
    out += member.value;
  }
  return out + "}";
}

ApiResult<text::Tool> read_tool(const Json& json, std::string_view spelling,
                                const std::string& path, ToolShape shape) {
  if (!json.is_object()) return bad_field(path, fmt::format("'{}' must be an object", path));
  const Fields tool(json, path);
  THIMBLE_TRY(check_type(tool));
  std::string at = path;
  std::string function;
  if (shape == ToolShape::kNested) {
    at = tool.path_of("function");
    const auto nested = THIMBLE_TRY(tool.object("function"));
    if (!nested) return bad_field(at, fmt::format("'{}' is missing", at));
    function = spelled(spelling, "function");
  } else {
    function = without_type(spelling);
  }
  auto made = text::make_tool(function);
  if (!made) return bad_field(at, fmt::format("'{}': {}", at, made.error().describe()));
  return *std::move(made);
}

ApiResult<std::vector<text::Tool>> read_tools(const Fields& fields, std::string_view body,
                                              ToolShape shape) {
  std::vector<text::Tool> tools;
  const Json* list = THIMBLE_TRY(fields.array("tools"));
  if (list == nullptr || list->empty()) return tools;
  if (list->size() > kToolsMax) {
    return bad_field("tools", fmt::format("'tools' has {} tools, at most {} are supported",
                                          list->size(), kToolsMax));
  }
  const auto spellings = text::json_elements(spelled(body, "tools"));
  if (!spellings || spellings->size() != list->size()) {
    return bad_field("tools", "'tools' must be JSON without a byte order mark before it");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = indexed("tools", i);
    text::Tool tool = THIMBLE_TRY(read_tool((*list)[i], (*spellings)[i], path, shape));
    const auto same = [&](const text::Tool& other) { return other.name == tool.name; };
    if (std::any_of(tools.begin(), tools.end(), same)) {
      const std::string at = path + (shape == ToolShape::kNested ? ".function.name" : ".name");
      return bad_field(at, fmt::format("'{}': there is another tool '{}'", at, tool.name));
    }
    tools.push_back(std::move(tool));
  }
  return tools;
}

// Of the function that `choice` names.
ApiResult<std::string> read_chosen(const Fields& choice, const std::vector<text::Tool>& tools,
                                   ToolShape shape) {
  THIMBLE_TRY(check_type(choice));
  std::optional<std::string> name;
  std::string at = choice.path_of("name");
  if (shape == ToolShape::kFlat) {
    name = THIMBLE_TRY(choice.string("name"));
  } else {
    at = choice.path_of("function.name");
    const auto function = THIMBLE_TRY(choice.object("function"));
    if (function) name = THIMBLE_TRY(function->string("name"));
  }
  if (name.value_or("").empty()) return bad_field(at, fmt::format("'{}' is missing", at));
  if (std::ranges::count(tools, *name, &text::Tool::name) == 0) {
    return bad_field(at, fmt::format("'{}' names no function of 'tools'", at));
  }
  return *std::move(name);
}

ApiResult<ToolChoice> read_choice(const Fields& fields, const std::vector<text::Tool>& tools,
                                  ToolShape shape) {
  const Json* json = fields.find("tool_choice");
  if (json == nullptr || *json == "auto") return ToolChoice{};
  if (*json == "none") return ToolChoice{ToolChoice::Kind::kNone, {}};
  ToolChoice choice{ToolChoice::Kind::kRequired, {}};
  if (json->is_object()) {
    choice.name = THIMBLE_TRY(read_chosen(Fields(*json, "tool_choice"), tools, shape));
  } else if (*json != "required") {
    return bad_field("tool_choice",
                     "'tool_choice' must be 'none', 'auto', 'required' or name a function");
  }
  if (tools.empty()) return bad_field("tool_choice", "'tool_choice' asks for a call of no 'tools'");
  return choice;
}

ApiResult<std::shared_ptr<const text::Grammar>> demanded_calls(const ToolFields& fields,
                                                               ToolShape shape) {
  const auto count = fields.parallel ? text::CallCount::kOneOrMore : text::CallCount::kOne;
  auto grammar = text::compile_calls(fields.tools, {fields.choice.name}, count);
  if (grammar) return std::make_shared<const text::Grammar>(std::move(*grammar));
  const Error& error = grammar.error();
  std::string at = "tools";
  for (size_t i = 0; i < fields.tools.size() && !error.steps.empty(); ++i) {
    if (fields.tools[i].name != error.steps.back()) continue;
    at = indexed("tools", i) + (shape == ToolShape::kNested ? ".function" : "") + ".parameters";
  }
  return refused_field(at, error);
}

ApiResult<text::ToolCall> read_call(const Json& json, const std::string& path) {
  if (!json.is_object()) return bad_field(path, fmt::format("'{}' must be an object", path));
  const Fields fields(json, path);
  THIMBLE_TRY(check_type(fields));
  text::ToolCall call;
  call.id = THIMBLE_TRY(fields.string("id")).value_or("");
  const auto function = THIMBLE_TRY(fields.object("function"));
  const std::string at = fields.path_of("function");
  if (!function) return bad_field(at, fmt::format("'{}' is missing", at));
  call.name = THIMBLE_TRY(function->string("name")).value_or("");
  call.arguments = THIMBLE_TRY(function->string("arguments")).value_or("");
  return call;
}

}  // namespace

ApiResult<ToolFields> read_tool_fields(const Fields& fields, std::string_view body,
                                       ToolShape shape) {
  for (const char* name : {"functions", "function_call"}) {
    const Json* value = fields.find(name);
    if (value == nullptr || *value == "none" || *value == "auto") continue;
    if (value->is_array() && value->empty()) continue;
    return not_yet(name, fmt::format("'{}' is not supported; send 'tools'", name));
  }
  ToolFields out;
  out.tools = THIMBLE_TRY(read_tools(fields, body, shape));
  out.choice = THIMBLE_TRY(read_choice(fields, out.tools, shape));
  out.parallel = THIMBLE_TRY(fields.boolean("parallel_tool_calls")).value_or(true);
  if (out.choice.kind == ToolChoice::Kind::kRequired) {
    out.demanded = THIMBLE_TRY(demanded_calls(out, shape));
  }
  return out;
}

ApiResult<std::vector<text::ToolCall>> read_tool_calls(const Fields& message) {
  std::vector<text::ToolCall> calls;
  if (message.find("function_call") != nullptr) {
    const std::string path = message.path_of("function_call");
    return not_yet(path, fmt::format("'{}' is not supported; send 'tool_calls'", path));
  }
  const Json* list = THIMBLE_TRY(message.array("tool_calls"));
  if (list == nullptr) return calls;
  for (size_t i = 0; i < list->size(); ++i) {
    calls.push_back(THIMBLE_TRY(read_call((*list)[i], indexed(message.path_of("tool_calls"), i))));
  }
  return calls;
}

}  // namespace thimble::server
