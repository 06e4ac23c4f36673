// Tools as a conversation has them: what is on offer, and what was called.
//
// Both keep their JSON as text, because prompts have it byte for byte. Values; any thread. Source:
// chat-format spec 6.1 and 6.2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace thimble::text {

inline constexpr size_t kToolNameBytesMax = 128;
inline constexpr size_t kParameterNameBytesMax = 1024;

struct Tool {
  std::string name;
  std::string function;  // OpenAI's `function` object
};

// Fails, naming the key, unless it has a usable name, a description that is text if any, and
// parameters that are an object of type "object" if any.
Result<Tool> make_tool(std::string_view function_json);

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object; anything else counts as one parameter "arguments"
};

// The line that describes it in a prompt: name, description and parameters, in this order, always.
std::string recipe_tool_line(const Tool& tool);
// The same as the released encoder has it: the object as it was given.
std::string ref_tool_line(const Tool& tool);

// A call's parameters as prompts have them.
struct CallParameter {
  std::string key;
  bool is_string = false;
  std::string value;    // a string's text, or JSON as Python prints it
  std::string as_sent;  // JSON as it was spelled
};

// kInvalidArgument: a key twice, or one that no tag can hold.
Result<std::vector<CallParameter>> call_parameters(const ToolCall& call);

// Can a tag hold it?
bool is_tool_name(std::string_view name);
bool is_parameter_name(std::string_view name);

// The JSON schema of its parameters; "{}" where it has none.
std::string_view parameters_of(const Tool& tool);

}  // namespace thimble::text
