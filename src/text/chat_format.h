// A conversation rendered to a prompt (spec/chat-format.md sections 3 to 5 and 9).
//
//   messages -> segments (special token | template text | caller text) -> ids
//
// Two renderings. Recipe, the default, is the one DeepSeek serves with: caller text is encoded
// without control tokens, so that a typed `<｜User｜>` stays text, and segment borders also cut
// tokens. Ref is the released encoder: one string in which control tokens are active.
//
// Tool turns and image parts are named here and refused with kUnsupported until they arrive; a
// literal image placeholder in caller text is refused always. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/reasoning_effort.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace thimble::text {

enum class Role {
  kSystem,  // "developer" is read as this.
  kUser,
  kAssistant,
  kTool,            // Not rendered yet.
  kLatestReminder,  // Ref only.
};

// Fails on a name that no encoding knows.
Result<Role> parse_role(std::string_view name);

enum class PartKind {
  kText,
  kImage,  // Not rendered yet.
};

// OpenAI's names of content parts: "text", "image_url", ...
Result<PartKind> parse_part_kind(std::string_view type);

struct ContentPart {
  PartKind kind = PartKind::kText;
  std::string text;
};

struct ChatMessage {
  Role role = Role::kUser;
  std::vector<ContentPart> content;  // Joined with a blank line. A plain string is one text part.
  std::string reasoning;             // Assistant only.
};

ChatMessage make_message(Role role, std::string text, std::string reasoning = {});

enum class ChatEncoding { kRecipe, kRef };

// "recipe" or "ref".
Result<ChatEncoding> parse_chat_encoding(std::string_view name);

// What becomes of the reasoning of assistant turns before the last user-side turn.
enum class PastReasoning {
  kByEncoding,  // Recipe keeps it, Ref drops it.
  kKeep,
  kDrop,
};

// How the prompt ends.
struct PromptEnding {
  bool add_generation_prompt = true;    // Open a new assistant turn,
  bool continue_final_message = false;  // but continue the last turn if the assistant had it.
};

// From the request's fields, either of which may be absent. Both true is an error.
Result<PromptEnding> make_prompt_ending(std::optional<bool> add_generation_prompt,
                                        std::optional<bool> continue_final_message);

struct ChatOptions {
  ChatEncoding encoding = ChatEncoding::kRecipe;
  ReasoningEffort effort;
  PastReasoning past_reasoning = PastReasoning::kByEncoding;
  PromptEnding ending;
};

enum class SegmentKind {
  kSpecial,   // One control token.
  kTemplate,  // Text of the format itself; control tokens in it are active.
  kCaller,    // Text that came with the request.
};

struct Segment {
  SegmentKind kind = SegmentKind::kTemplate;
  int32_t id = -1;   // kSpecial only.
  std::string text;  // A special token's content, or the text.
};

struct ChatPrompt {
  ChatEncoding encoding = ChatEncoding::kRecipe;
  std::vector<Segment> segments;
  bool opens_in_reasoning = false;  // What is generated first is reasoning, up to </think>.
};

// Errors name the message by its index, as "messages[2]: ...".
Result<ChatPrompt> render_chat(std::span<const ChatMessage> messages, const ChatOptions& options,
                               const SpecialTokens& tokens);

// The prompt as one string: what Ref tokenises, and what a person wants to see.
std::string prompt_text(const ChatPrompt& prompt);

std::vector<int32_t> encode_prompt(const ChatPrompt& prompt, const Tokenizer& tokenizer);

}  // namespace thimble::text
