// A conversation rendered to a prompt (spec/chat-format.md sections 3 to 5 and 9).
//
//   messages -> segments (special token | template text | caller text) -> ids
//
// Two renderings. Recipe, the default, is the one DeepSeek serves with: caller text is encoded
// without control tokens, so that a typed `<｜User｜>` stays text, and segment borders also cut
// tokens. Ref is the released encoder: one string in which control tokens are active.
//
// Tools on offer stand at the end of the first turn, between the model's own texts, and behind them
// the form that the answer has to have (section 7); calls of past turns are written in the model's
// grammar (text/call_parser.h) and their results, in the order of the calls, in the user's turn
// after them (section 6).
//
// Image parts are named here and refused with kUnsupported until they arrive; a literal image
// placeholder in caller text is refused always. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/encoding_texts.h"
#include "text/reasoning_effort.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "text/tools.h"

namespace thimble::text {

enum class Role {
  kSystem,  // "developer" is read as this.
  kUser,
  kAssistant,
  kTool,            // The result of a call.
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
  std::string reasoning = {};        // Assistant only.
  std::vector<ToolCall> calls = {};  // Assistant only.
  std::string call_id = {};          // kTool only: whose result it is.
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

// A call that the answer must begin with; it goes with reasoning off only.
struct ForcedCall {
  std::string name = {};  // Empty: of any tool.
};

// How the prompt ends.
struct PromptEnding {
  bool add_generation_prompt = true;    // Open a new assistant turn,
  bool continue_final_message = false;  // but continue the last turn if the assistant had it.
  std::optional<ForcedCall> forced = {};
};

// From the request's fields, either of which may be absent. Both true is an error.
Result<PromptEnding> make_prompt_ending(std::optional<bool> add_generation_prompt,
                                        std::optional<bool> continue_final_message);

struct ChatOptions {
  ChatEncoding encoding = ChatEncoding::kRecipe;
  ReasoningEffort effort;
  PastReasoning past_reasoning = PastReasoning::kByEncoding;
  PromptEnding ending;
  std::vector<Tool> tools = {};  // On offer. They need `texts` that have a tools_head.
  EncodingTexts texts = {};
  // The schema that the answer has to fit; empty: any answer. Shown where `texts` introduce it.
  std::string answer_format = {};
};

// Does the prompt begin with a turn of the system whether or not there is such a message?
bool has_first_turn(const ChatOptions& options);

enum class SegmentKind {
  kSpecial,   // One control token.
  kTemplate,  // Text of the format itself; control tokens in it are active.
  kCaller,    // Text that came with the request.
};

struct Segment {
  SegmentKind kind = SegmentKind::kTemplate;
  int32_t id = -1;   // kSpecial only.
  std::string text;  // A special token's content, or the text.
  // Caller text that is printed anew: how it was spelled, if that differs.
  std::string as_sent = {};
};

struct ChatPrompt {
  ChatEncoding encoding = ChatEncoding::kRecipe;
  std::vector<Segment> segments;
  bool opens_in_reasoning = false;  // What is generated first is reasoning, up to </think>.
  std::string forced = {};          // What a CallParser of the answer has to be given first.
};

// Errors name the message by its index, as "messages[2]: ...".
Result<ChatPrompt> render_chat(std::span<const ChatMessage> messages, const ChatOptions& options,
                               const SpecialTokens& tokens);

// The prompt as one string: what Ref tokenises, and what a person wants to see.
std::string prompt_text(const ChatPrompt& prompt);

std::vector<int32_t> encode_prompt(const ChatPrompt& prompt, const Tokenizer& tokenizer);

}  // namespace thimble::text
