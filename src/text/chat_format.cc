#include "text/chat_format.h"

#include <algorithm>
#include <utility>

namespace thimble::text {
namespace {

using base::fail;

constexpr std::string_view kBlankLine = "\n\n";

const char* role_name(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
    case Role::kLatestReminder:
      return "latest_reminder";
  }
  return "?";
}

std::string at_message(size_t index) { return fmt::format("messages[{}]", index); }

bool has_text(const ChatMessage& message) {
  return std::any_of(message.content.begin(), message.content.end(),
                     [](const ContentPart& part) { return !part.text.empty(); });
}

// An image is a part of its own kind; its placeholder in text would stand for no image.
Result<void> check_caller_text(std::string_view text, std::string_view field) {
  const size_t at = text.find(kImageText);
  if (at == std::string_view::npos) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{} contains the image placeholder {} at byte {}, which only an image part may use",
              field, kImageText, at);
}

Result<void> check_message(const ChatMessage& message, const ChatOptions& options,
                           const SpecialTokens& tokens) {
  if (message.role == Role::kTool) {
    return fail(ErrorCode::kUnsupported, "tool turns are not supported yet");
  }
  if (message.role == Role::kLatestReminder) {
    if (options.encoding != ChatEncoding::kRef) {
      return fail(ErrorCode::kInvalidArgument,
                  "role latest_reminder exists in the ref encoding only");
    }
    if (!tokens.latest_reminder) {
      return fail(ErrorCode::kUnsupported, "this model's tokenizer has no {}", kLatestReminderText);
    }
  }
  if (message.role != Role::kAssistant && !message.reasoning.empty()) {
    return fail(ErrorCode::kInvalidArgument, "reasoning in a turn of role {}, expected assistant",
                role_name(message.role));
  }
  for (size_t i = 0; i < message.content.size(); ++i) {
    const std::string field = fmt::format("content[{}]", i);
    if (message.content[i].kind != PartKind::kText) {
      return fail(ErrorCode::kUnsupported, "{}: image parts are not supported yet", field);
    }
    THIMBLE_TRY(check_caller_text(message.content[i].text, field));
  }
  return check_caller_text(message.reasoning, "reasoning");
}

class Renderer {
 public:
  Renderer(std::span<const ChatMessage* const> turns, const ChatOptions& options,
           const SpecialTokens& tokens)
      : turns_(turns), options_(options), tokens_(tokens) {
    prompt_.encoding = options.encoding;
    for (size_t i = 0; i < turns.size(); ++i) {
      if (turns[i]->role == Role::kUser || turns[i]->role == Role::kSystem) last_user_side_ = i;
    }
  }

  ChatPrompt run() {
    special(tokens_.bos, kBosText);
    const bool system_first = !turns_.empty() && turns_[0]->role == Role::kSystem;
    if (system_first || options_.effort.thinking) special(tokens_.system, kSystemText);
    if (options_.effort.thinking) effort_line();
    if (system_first) content(*turns_[0]);
    for (size_t i = system_first ? 1 : 0; i < turns_.size(); ++i) turn(i);
    end();
    return std::move(prompt_);
  }

 private:
  void effort_line() {
    template_text(fmt::format(
        "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the "
        "reasoning){}",
        options_.effort.budget, kBlankLine));
  }

  void turn(size_t index) {
    const ChatMessage& message = *turns_[index];
    switch (message.role) {
      case Role::kSystem:
        special(tokens_.system, kSystemText);
        content(message);
        break;
      case Role::kUser:
        if (index > 0 && turns_[index - 1]->role == Role::kUser) {
          template_text(kBlankLine);
        } else {
          special(tokens_.user, kUserText);
        }
        content(message);
        break;
      case Role::kAssistant:
        assistant(index);
        break;
      case Role::kLatestReminder:
        special(*tokens_.latest_reminder, kLatestReminderText);
        content(message);
        break;
      case Role::kTool:
        break;  // Refused by check_message().
    }
  }

  bool keeps_reasoning(size_t index) const {
    if (!options_.effort.thinking) return false;
    // Recipe gives a conversation that begins with the assistant no reasoning block.
    if (options_.encoding == ChatEncoding::kRecipe && index == 0) return false;
    const bool past = last_user_side_ && index < *last_user_side_;
    const bool drops = options_.past_reasoning == PastReasoning::kDrop ||
                       (options_.past_reasoning == PastReasoning::kByEncoding &&
                        options_.encoding == ChatEncoding::kRef);
    return !(past && drops);
  }

  void assistant(size_t index) {
    const ChatMessage& message = *turns_[index];
    const bool open = index + 1 == turns_.size() && options_.ending.continue_final_message;
    if (open && !has_text(message)) {
      assistant_header(!message.reasoning.empty() || options_.effort.thinking);
      caller_text(message.reasoning);
      return;
    }
    if (keeps_reasoning(index)) {
      assistant_header(true);
      caller_text(message.reasoning);
      special(tokens_.think_close, kThinkCloseText);
    } else {
      assistant_header(false);
    }
    prompt_.opens_in_reasoning = false;
    content(message);
    if (!open) special(tokens_.eos, kEosText);
  }

  void assistant_header(bool thinking) {
    special(tokens_.assistant, kAssistantText);
    if (thinking) {
      special(tokens_.think_open, kThinkOpenText);
    } else {
      special(tokens_.think_close, kThinkCloseText);
    }
    prompt_.opens_in_reasoning = thinking;
  }

  void end() {
    const Role last = turns_.empty() ? Role::kUser : turns_.back()->role;
    if (last == Role::kAssistant && options_.ending.continue_final_message) return;
    // Ref writes the header as part of the turn before it, and a reminder has none.
    if (last == Role::kLatestReminder || !options_.ending.add_generation_prompt) return;
    assistant_header(options_.effort.thinking);
  }

  void content(const ChatMessage& message) {
    for (size_t i = 0; i < message.content.size(); ++i) {
      if (i > 0) template_text(kBlankLine);
      caller_text(message.content[i].text);
    }
  }

  void special(int32_t id, std::string_view text) {
    prompt_.segments.push_back({SegmentKind::kSpecial, id, std::string(text)});
  }
  void template_text(std::string_view text) {
    prompt_.segments.push_back({SegmentKind::kTemplate, -1, std::string(text)});
  }
  void caller_text(std::string_view text) {
    if (text.empty()) return;
    prompt_.segments.push_back({SegmentKind::kCaller, -1, std::string(text)});
  }

  std::span<const ChatMessage* const> turns_;
  const ChatOptions& options_;
  const SpecialTokens& tokens_;
  std::optional<size_t> last_user_side_;
  ChatPrompt prompt_;
};

}  // namespace

Result<Role> parse_role(std::string_view name) {
  if (name == "developer") return Role::kSystem;
  for (const Role role :
       {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool, Role::kLatestReminder}) {
    if (name == role_name(role)) return role;
  }
  return fail(ErrorCode::kInvalidArgument,
              "role \"{}\", expected system, developer, user, assistant or tool",
              name.substr(0, 64));
}

Result<PartKind> parse_part_kind(std::string_view type) {
  if (type == "text") return PartKind::kText;
  if (type == "image_url") return PartKind::kImage;
  return fail(ErrorCode::kInvalidArgument,
              "content part of type \"{}\", expected text or image_url", type.substr(0, 64));
}

Result<ChatEncoding> parse_chat_encoding(std::string_view name) {
  if (name == "recipe") return ChatEncoding::kRecipe;
  if (name == "ref") return ChatEncoding::kRef;
  return fail(ErrorCode::kInvalidArgument, "chat encoding \"{}\", expected recipe or ref",
              name.substr(0, 64));
}

ChatMessage make_message(Role role, std::string text, std::string reasoning) {
  return {role, {{PartKind::kText, std::move(text)}}, std::move(reasoning)};
}

Result<PromptEnding> make_prompt_ending(std::optional<bool> add_generation_prompt,
                                        std::optional<bool> continue_final_message) {
  if (add_generation_prompt.value_or(false) && continue_final_message.value_or(false)) {
    return fail(ErrorCode::kInvalidArgument,
                "add_generation_prompt and continue_final_message are both true: either a new "
                "turn begins or the last one continues");
  }
  return PromptEnding{add_generation_prompt.value_or(true), continue_final_message.value_or(false)};
}

Result<ChatPrompt> render_chat(std::span<const ChatMessage> messages, const ChatOptions& options,
                               const SpecialTokens& tokens) {
  if (messages.empty()) {
    return fail(ErrorCode::kInvalidArgument, "messages: empty, expected at least one");
  }
  std::vector<const ChatMessage*> turns;
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    THIMBLE_TRY(in(check_message(message, options, tokens), at_message(i)));
    const bool skipped = options.encoding == ChatEncoding::kRecipe &&
                         message.role == Role::kSystem && !has_text(message);
    if (!skipped) turns.push_back(&message);
  }
  return Renderer(turns, options, tokens).run();
}

std::string prompt_text(const ChatPrompt& prompt) {
  std::string text;
  for (const Segment& segment : prompt.segments) text += segment.text;
  return text;
}

std::vector<int32_t> encode_prompt(const ChatPrompt& prompt, const Tokenizer& tokenizer) {
  if (prompt.encoding == ChatEncoding::kRef) {
    return tokenizer.encode(prompt_text(prompt), AddedTokens::kMatch);
  }
  std::vector<int32_t> ids;
  for (const Segment& segment : prompt.segments) {
    if (segment.kind == SegmentKind::kSpecial) {
      ids.push_back(segment.id);
      continue;
    }
    const bool ours = segment.kind == SegmentKind::kTemplate;
    const auto part =
        tokenizer.encode(segment.text, ours ? AddedTokens::kMatch : AddedTokens::kPlain);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

}  // namespace thimble::text
