// A conversation as the Responses API has it, items, as the turns of a chat.
//
// A turn of the assistant is what one response puts out: reasoning, then text, then calls. Items of
// that order make one turn, so that a response's output, given back, is the turn it was; an item
// that would come before what the turn has begins a new one. Stateless; any thread.
#pragma once

#include <string>
#include <vector>

#include "server/internal/json.h"
#include "text/chat_format.h"

namespace thimble::server {

struct ItemTurns {
  std::vector<text::ChatMessage> messages;
  std::vector<std::string> sources;  // [messages]: of the first item of each, "input[3]"
};

// `instructions` and `input`.
ApiResult<ItemTurns> read_items(const Fields& fields);

}  // namespace thimble::server
