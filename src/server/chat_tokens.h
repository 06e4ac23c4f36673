// A rendered conversation as token ids, and the places in it that later requests come back to.
//
// Past turns of the assistant take the ids that were sampled, where TurnMemory knows them; all else
// is tokenised as text::encode_prompt() does it. Stateless but for the memory; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/turn_memory.h"
#include "text/chat_format.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace thimble::server {

// The turn that an answer will continue.
struct OpenTurn {
  uint64_t begin = 0;       // its first id after the header
  TurnMemory::Place place;  // under which it will be remembered
};

struct ChatTokens {
  std::vector<int32_t> ids;
  std::vector<uint64_t> segment_begins;  // [segments]; empty: not known
  std::optional<OpenTurn> open;          // none: the prompt ends with a closed turn
};

// `memory` may be null.
ChatTokens encode_chat(const text::ChatPrompt& prompt, const text::Tokenizer& tokenizer,
                       const text::SpecialTokens& tokens, const std::string& salt,
                       TurnMemory* memory);

// Prompt lengths at which later requests will want to resume: the end of what the system said
// first, and the last token that stays as it is when the conversation comes back with this prompt
// answered and a new question. Found by rendering that. REQUIRES: `prompt` is render_chat() of the
// other arguments, `encoded` its tokens.
std::vector<uint64_t> resume_points(const text::ChatPrompt& prompt, const ChatTokens& encoded,
                                    std::vector<text::ChatMessage> messages,
                                    text::ChatOptions options, const text::SpecialTokens& tokens);

}  // namespace thimble::server
