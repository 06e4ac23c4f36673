#include "text/chat_format.h"

#include <algorithm>
#include <map>
#include <utility>

#include "text/internal/call_segments.h"

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

bool is_user_side(Role role) {
  return role == Role::kUser || role == Role::kSystem || role == Role::kTool;
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
  for (size_t i = 0; i < message.calls.size(); ++i) {
    const std::string field = fmt::format("tool_calls[{}]", i);
    if (!tokens.dsml) {
      return fail(ErrorCode::kUnsupported, "{}: this model's tokenizer has no {}", field,
                  kDsmlText);
    }
    THIMBLE_TRY(check_caller_text(message.calls[i].arguments, field + ".function.arguments"));
    THIMBLE_TRY(in(call_segments({&message.calls[i], 1}, *tokens.dsml), field));
  }
  return check_caller_text(message.reasoning, "reasoning");
}

using Turns = std::vector<const ChatMessage*>;

tl::unexpected<Error> refuse_message(size_t index, std::string why) {
  return tl::unexpected(
      in(Error{ErrorCode::kInvalidArgument, std::move(why), {}}, at_message(index)));
}

// Places of the calls by their ids.
Result<std::map<std::string_view, size_t>> places_of(const std::vector<ToolCall>& calls,
                                                     size_t at) {
  std::map<std::string_view, size_t> places;
  for (const ToolCall& call : calls) {
    if (call.id.empty()) return refuse_message(at, "tool_calls: a call without an id");
    if (!places.emplace(call.id, places.size()).second) {
      return refuse_message(at, fmt::format("tool_calls: two of id \"{}\"", call.id.substr(0, 64)));
    }
  }
  return places;
}

// The results that follow the calls of messages[at], in the order of the calls: one of each.
Result<Turns> results_of(std::span<const ChatMessage> messages, size_t at) {
  const std::vector<ToolCall>& calls = messages[at].calls;
  const auto places = THIMBLE_TRY(places_of(calls, at));
  Turns results(calls.size(), nullptr);
  for (size_t i = at + 1; i < messages.size() && messages[i].role == Role::kTool; ++i) {
    const auto place = places.find(messages[i].call_id);
    if (place == places.end() || results[place->second] != nullptr) {
      return refuse_message(i, fmt::format("tool_call_id is \"{}\", expected one of the calls "
                                           "before it that has no result yet",
                                           messages[i].call_id.substr(0, 64)));
    }
    results[place->second] = &messages[i];
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    if (results[i] != nullptr) continue;
    return refuse_message(at, fmt::format("no tool message with the result of call \"{}\" follows",
                                          calls[i].id.substr(0, 64)));
  }
  return results;
}

// What is rendered, in order.
Result<Turns> turns_of(std::span<const ChatMessage> messages, const ChatOptions& options,
                       const SpecialTokens& tokens) {
  Turns turns;
  size_t results_end = 0;  // messages before it are results that have their place
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    THIMBLE_TRY(in(check_message(message, options, tokens), at_message(i)));
    if (message.role == Role::kTool) {
      if (i >= results_end) return refuse_message(i, "a tool message that follows no call");
      continue;
    }
    const bool skipped = options.encoding == ChatEncoding::kRecipe &&
                         message.role == Role::kSystem && !has_text(message);
    if (!skipped) turns.push_back(&message);
    if (message.calls.empty()) continue;
    const Turns results = THIMBLE_TRY(results_of(messages, i));
    turns.insert(turns.end(), results.begin(), results.end());
    results_end = i + 1 + results.size();
  }
  return turns;
}

// Errors have the request's field for a step.
Result<void> check_tools(const ChatOptions& options, const SpecialTokens& tokens) {
  const auto refuse = [](const char* field, ErrorCode code, std::string why) {
    return tl::unexpected(in(Error{code, std::move(why), {}}, field));
  };
  if (!options.tools.empty() && !tokens.dsml) {
    return refuse(
        "tools", ErrorCode::kUnsupported,
        fmt::format("this model's tokenizer has no {}, so it cannot be offered tools", kDsmlText));
  }
  if (!options.tools.empty() && options.texts.tools_head.empty()) {
    return refuse("tools", ErrorCode::kUnsupported,
                  "this model has no encoding/tools_head.txt and tools_tail.txt, so it cannot be "
                  "offered tools");
  }
  for (size_t i = 0; i < options.tools.size(); ++i) {
    THIMBLE_TRY(
        in(check_caller_text(options.tools[i].function, fmt::format("tools[{}]", i)), "tools"));
  }
  THIMBLE_TRY(in(check_caller_text(options.answer_format, "the schema"), "response_format"));
  if (options.ending.forced && options.effort.thinking) {
    return refuse("tool_choice", ErrorCode::kInvalidArgument,
                  "a call cannot be demanded of an answer that begins with reasoning");
  }
  return {};
}

// A model without a text for it was never taught to read one.
bool shows_format(const ChatOptions& options) {
  return !options.answer_format.empty() && !options.texts.response_format.empty();
}

class Renderer {
 public:
  Renderer(std::span<const ChatMessage* const> turns, const ChatOptions& options,
           const SpecialTokens& tokens)
      : turns_(turns), options_(options), tokens_(tokens) {
    prompt_.encoding = options.encoding;
    for (size_t i = 0; i < turns.size(); ++i) {
      if (is_user_side(turns[i]->role)) last_user_side_ = i;
    }
  }

  ChatPrompt run() {
    special(tokens_.bos, kBosText);
    const bool system_first = !turns_.empty() && turns_[0]->role == Role::kSystem;
    if (system_first || options_.effort.thinking || has_first_turn(options_)) {
      special(tokens_.system, kSystemText);
    }
    if (options_.effort.thinking) effort_line();
    if (system_first) content(*turns_[0]);
    if (!options_.tools.empty()) tools();
    if (shows_format(options_)) answer_format();
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

  void tools() {
    template_text(kBlankLine);
    template_text(options_.texts.tools_head);
    std::string lines;
    for (const Tool& tool : options_.tools) {
      if (!lines.empty()) lines += '\n';
      lines +=
          options_.encoding == ChatEncoding::kRef ? ref_tool_line(tool) : recipe_tool_line(tool);
    }
    caller_text(lines);
    template_text(options_.texts.tools_tail);
  }

  void answer_format() {
    template_text(kBlankLine);
    template_text(options_.texts.response_format);
    caller_text(options_.answer_format);
  }

  // Users and results share a turn.
  void user_turn(size_t index) {
    const Role before = index > 0 ? turns_[index - 1]->role : Role::kSystem;
    if (before == Role::kUser || before == Role::kTool) {
      template_text(kBlankLine);
    } else {
      special(tokens_.user, kUserText);
    }
  }

  void turn(size_t index) {
    const ChatMessage& message = *turns_[index];
    switch (message.role) {
      case Role::kSystem:
        special(tokens_.system, kSystemText);
        content(message);
        break;
      case Role::kUser:
        user_turn(index);
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
        user_turn(index);
        template_text("<tool_result>");
        content(message);
        template_text("</tool_result>");
        break;
    }
  }

  bool keeps_reasoning(size_t index) const {
    if (!options_.effort.thinking) return false;
    // Recipe gives a conversation that begins with the assistant no reasoning block.
    if (options_.encoding == ChatEncoding::kRecipe && index == 0) return false;
    const bool past = last_user_side_ && index < *last_user_side_;
    const bool drops = options_.past_reasoning == PastReasoning::kDrop ||
                       (options_.past_reasoning == PastReasoning::kByEncoding &&
                        options_.encoding == ChatEncoding::kRef && options_.tools.empty());
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
    if (!message.calls.empty()) {
      append(*call_segments(message.calls, *tokens_.dsml));  // checked by check_message()
    }
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
    if (!options_.ending.forced || options_.tools.empty()) return;
    ForcedBlock block = forced_block(*options_.ending.forced, *tokens_.dsml);
    append(std::move(block.segments));
    prompt_.forced = std::move(block.text);
  }

  void append(std::vector<Segment> segments) {
    for (Segment& segment : segments) prompt_.segments.push_back(std::move(segment));
  }

  void content(const ChatMessage& message) {
    for (size_t i = 0; i < message.content.size(); ++i) {
      if (i > 0) template_text(kBlankLine);
      caller_text(message.content[i].text);
    }
  }

  void special(int32_t id, std::string_view text) {
    prompt_.segments.push_back({SegmentKind::kSpecial, id, std::string(text), {}});
  }
  void template_text(std::string_view text) {
    prompt_.segments.push_back({SegmentKind::kTemplate, -1, std::string(text), {}});
  }
  void caller_text(std::string_view text) {
    if (text.empty()) return;
    prompt_.segments.push_back({SegmentKind::kCaller, -1, std::string(text), {}});
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
  return {role, {{PartKind::kText, std::move(text)}}, std::move(reasoning), {}, {}};
}

Result<PromptEnding> make_prompt_ending(std::optional<bool> add_generation_prompt,
                                        std::optional<bool> continue_final_message) {
  if (add_generation_prompt.value_or(false) && continue_final_message.value_or(false)) {
    return fail(ErrorCode::kInvalidArgument,
                "add_generation_prompt and continue_final_message are both true: either a new "
                "turn begins or the last one continues");
  }
  return PromptEnding{
      add_generation_prompt.value_or(true), continue_final_message.value_or(false), {}};
}

bool has_first_turn(const ChatOptions& options) {
  return !options.tools.empty() || shows_format(options);
}

Result<ChatPrompt> render_chat(std::span<const ChatMessage> messages, const ChatOptions& options,
                               const SpecialTokens& tokens) {
  if (messages.empty()) {
    return fail(ErrorCode::kInvalidArgument, "messages: empty, expected at least one");
  }
  THIMBLE_TRY(check_tools(options, tokens));
  const Turns turns = THIMBLE_TRY(turns_of(messages, options, tokens));
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
