// How long the model should reason: 1 to 100, or a name (spec/chat-format.md section 4).
//
// The number is written into the prompt and nothing enforces it. Names follow the current table of
// the release (low 50, high 75, max 100), not the one of launch day. Stateless; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace thimble::text {

struct ReasoningEffort {
  bool thinking = true;  // Off: the answer comes at once and no budget is written.
  int32_t budget = 75;   // 1 .. 100.
};

// none, minimal, low, medium, high, xhigh, max, ultra, or the number in decimal.
Result<ReasoningEffort> parse_effort(std::string_view text);

Result<ReasoningEffort> effort_from_number(int64_t number);

}  // namespace thimble::text
