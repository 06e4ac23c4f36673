// What requests say about tools: what is on offer, whether a call is wanted, what was called.
#pragma once

#include <string_view>
#include <vector>

#include "server/internal/json.h"
#include "server/openai_types.h"

namespace thimble::server {

// Where a function's name and the rest of its definition are.
enum class ToolShape {
  kNested,  // in an object `function` of the tool: chat
  kFlat,    // in the tool itself: responses
};

// tools, tool_choice and parallel_tool_calls. `body` is the text that `fields` were parsed from:
// definitions go into prompts as they were spelled.
ApiResult<ToolFields> read_tool_fields(const Fields& fields, std::string_view body,
                                       ToolShape shape);

// tool_calls of a message.
ApiResult<std::vector<text::ToolCall>> read_tool_calls(const Fields& message);

}  // namespace thimble::server
