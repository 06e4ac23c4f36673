// JSON kept as text: members and elements as slices of it, and its printing in Python's style.
//
// Prompts hold JSON byte for byte as Python's json.dumps(ensure_ascii=False) prints it, with keys
// in their order and numbers as they were spelled (chat-format spec 6.1). A parsed value has lost
// both, so what goes into prompts is read from the text. Errors name the byte. Views point into the
// argument. Stateless; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace thimble::text {

inline constexpr uint32_t kJsonTextDepthMax = 128;

struct JsonMember {
  std::string key;         // decoded
  std::string_view value;  // as it is spelled, without space around it
};

// Of one object, in order; keys may repeat. Fails on any other value.
Result<std::vector<JsonMember>> json_members(std::string_view json);

// Of one array.
Result<std::vector<std::string_view>> json_elements(std::string_view json);

// The text of one string.
Result<std::string> json_string_value(std::string_view json);

// The value again with ", " and ": " between, characters themselves instead of \u escapes, numbers
// as spelled. Fails on anything but one JSON value in UTF-8.
Result<std::string> python_json(std::string_view json);

// The inside of a JSON string that reads as `text`. Texts may be escaped piece by piece.
void append_json_escaped(std::string_view text, std::string& out);

// With quotes around it.
std::string json_quoted(std::string_view text);

}  // namespace thimble::text
