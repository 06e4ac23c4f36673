// Conversations from strangers, in both encodings.
//
// Whatever is rendered decodes to its own text and begins with BOS; caller text never becomes a
// control token in Recipe; with reasoning kept, an earlier conversation is a prefix of its
// continuation; what is refused says why.
#include "base/check.h"
#include "fuzz/input.h"
#include "text/byte_tokenizer.h"
#include "text/chat_format.h"

namespace thimble::text {
namespace {

using fuzz::Input;

// Texts that could be taken for something else, beside the input's own bytes.
std::string take_text(Input& input) {
  static const std::string known[] = {"",
                                      "\n\n",
                                      "<think>",
                                      "</think>",
                                      std::string(kUserText),
                                      "｜DSML｜",
                                      "<｜Us",
                                      "er｜>",
                                      std::string(kEosText),
                                      std::string(kImageText)};
  std::string text;
  for (size_t parts = input.below(4); parts > 0; --parts) {
    text += input.flag() ? known[input.below(std::size(known))] : input.text(40);
  }
  return text;
}

ChatMessage take_message(Input& input) {
  constexpr Role kRoles[] = {Role::kUser,           Role::kAssistant, Role::kSystem, Role::kUser,
                             Role::kLatestReminder, Role::kAssistant, Role::kTool,   Role::kSystem};
  ChatMessage message;
  message.role = kRoles[input.below(std::size(kRoles))];
  for (size_t parts = input.below(4); parts > 0; --parts) {
    const bool image = input.below(32) == 31;
    message.content.push_back({image ? PartKind::kImage : PartKind::kText, take_text(input)});
  }
  if (message.role == Role::kAssistant || input.below(16) == 15) {
    message.reasoning = take_text(input);
  }
  return message;
}

ChatOptions take_options(Input& input) {
  constexpr PastReasoning kPast[] = {PastReasoning::kByEncoding, PastReasoning::kKeep,
                                     PastReasoning::kDrop};
  ChatOptions options;
  options.encoding = input.flag() ? ChatEncoding::kRef : ChatEncoding::kRecipe;
  options.past_reasoning = kPast[input.below(3)];
  if (const auto effort = parse_effort(input.text(8))) options.effort = *effort;
  if (const auto effort = effort_from_number(input.byte())) options.effort = *effort;
  options.effort.thinking = input.flag();
  const auto field = [&input]() -> std::optional<bool> {
    const size_t choice = input.below(3);
    return choice == 2 ? std::nullopt : std::optional(choice == 1);
  };
  const auto add = field();
  if (const auto ending = make_prompt_ending(add, field())) options.ending = *ending;
  return options;
}

bool same(const Segment& a, const Segment& b) {
  return a.kind == b.kind && a.id == b.id && a.text == b.text;
}

void check_prompt(const ChatPrompt& prompt, const Tokenizer& tokenizer,
                  const SpecialTokens& tokens) {
  const std::vector<int32_t> ids = encode_prompt(prompt, tokenizer);
  CHECK(!ids.empty());
  CHECK_EQ(ids[0], tokens.bos);
  CHECK(*tokenizer.decode(ids) == prompt_text(prompt));
  if (prompt.encoding == ChatEncoding::kRef) return;
  size_t special = 0;
  for (const Segment& segment : prompt.segments) special += segment.kind == SegmentKind::kSpecial;
  size_t added = 0;
  for (const int32_t id : ids) added += tokenizer.is_added(id);
  CHECK_EQ(added, special);
}

// REQUIRES: `messages` render with `options`.
void check_prefix(std::span<const ChatMessage> messages, ChatOptions options,
                  const SpecialTokens& tokens) {
  options.past_reasoning = PastReasoning::kKeep;
  options.ending = {.add_generation_prompt = false};
  const auto whole = render_chat(messages, options, tokens);
  CHECK(whole.has_value());
  for (size_t count = 1; count < messages.size(); ++count) {
    const auto part = render_chat(messages.first(count), options, tokens);
    CHECK(part.has_value());
    // An empty first system turn is written by Ref, and the effort line makes one in both.
    CHECK_LE(part->segments.size(), whole->segments.size());
    CHECK(std::equal(part->segments.begin(), part->segments.end(), whole->segments.begin(), same));
  }
}

void run(Input& input) {
  static const Tokenizer tokenizer = *Tokenizer::parse(make_byte_tokenizer_json());
  static const SpecialTokens tokens = *resolve_chat_tokens(tokenizer);
  const ChatOptions options = take_options(input);
  std::vector<ChatMessage> messages;
  while (!input.empty() && messages.size() < 12) messages.push_back(take_message(input));
  const auto prompt = render_chat(messages, options, tokens);
  if (!prompt) {
    CHECK(!prompt.error().message.empty());
    CHECK(prompt.error().code == ErrorCode::kInvalidArgument ||
          prompt.error().code == ErrorCode::kUnsupported);
    return;
  }
  check_prompt(*prompt, tokenizer, tokens);
  check_prefix(messages, options, tokens);
}

}  // namespace
}  // namespace thimble::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thimble::fuzz::Input input(data, size);
  thimble::text::run(input);
  return 0;
}
