// Calls of past turns, and the beginning of one that is demanded, as segments of a prompt.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/chat_format.h"
#include "text/tools.h"

namespace thimble::text {

// The block of calls that ends a turn of the assistant, its two leading newlines included. Every
// marker is a special token of its own. kInvalidArgument: a call that the format cannot hold.
Result<std::vector<Segment>> call_segments(std::span<const ToolCall> calls, int32_t dsml);

// The beginning of such a block, up to where the function's name or its parameters follow.
struct ForcedBlock {
  std::vector<Segment> segments;
  std::string text;  // the same with CallParser::kMarker for the markers
};
ForcedBlock forced_block(const ForcedCall& forced, int32_t dsml);

}  // namespace thimble::text
