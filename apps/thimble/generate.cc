#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "apps/thimble/commands.h"
#include "apps/thimble/console_answer.h"
#include "apps/thimble/generation_flags.h"
#include "base/terminal.h"
#include "text/special_tokens.h"

namespace thimble::app {
namespace {

constexpr uint32_t kUsualTokens = 512;
constexpr uint64_t kUsualSeed = 0;  // a command line gives the same answer each time

struct GenerateFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  ChatFlags chat;
  std::optional<std::string> prompt;
  std::optional<std::string> turn;
};

// A prompt in tokens, and how to read what follows it.
struct Prompt {
  std::vector<int32_t> ids;
  std::optional<int32_t> eos;
  engine::TextStreamOptions reading;
};

// BOS and the text, in which control tokens are active.
Prompt raw_prompt(const std::string& text, const text::Tokenizer& tokenizer) {
  Prompt prompt;
  prompt.ids = tokenizer.encode(text, text::AddedTokens::kMatch);
  prompt.eos = tokenizer.find_added(text::kEosText);
  const auto bos = tokenizer.find_added(text::kBosText);
  const bool has_bos = !prompt.ids.empty() && bos == prompt.ids.front();
  if (bos && !has_bos) prompt.ids.insert(prompt.ids.begin(), *bos);
  return prompt;
}

Result<Prompt> chat_prompt(const std::string& turn, const ChatFlags& flags,
                           const engine::Engine& engine) {
  const auto options = THIMBLE_TRY(chat_options(flags));
  const auto tokens = THIMBLE_TRY(base::in(engine.chat_tokens(), "--chat"));
  std::vector<text::ChatMessage> messages;
  if (!flags.system.empty()) {
    messages.push_back(text::make_message(text::Role::kSystem, flags.system));
  }
  messages.push_back(text::make_message(text::Role::kUser, turn));
  const auto rendered = THIMBLE_TRY(text::render_chat(messages, options, tokens));
  Prompt prompt;
  prompt.ids = text::encode_prompt(rendered, *engine.tokenizer());
  prompt.eos = tokens.eos;
  prompt.reading.starts_in_reasoning = rendered.opens_in_reasoning;
  prompt.reading.think_close = tokens.think_close;
  return prompt;
}

Result<void> check(const GenerateFlags& flags) {
  const bool chat_only =
      flags.chat.effort || !flags.chat.system.empty() || flags.chat.encoding != "recipe";
  if (flags.prompt && chat_only) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "--system, --effort and --chat-encoding shape a conversation: they go with "
                      "--chat, not with --prompt");
  }
  if (flags.turn) THIMBLE_TRY(check_text("--chat", *flags.turn));
  THIMBLE_TRY(check(flags.engine));
  THIMBLE_TRY(check(flags.sampling));
  return check(flags.chat);
}

Result<int> run_generate(const GenerateFlags& flags) {
  CacheFlags cache;
  cache.snapshot_memory = "0";  // nobody comes back
  const auto engine = THIMBLE_TRY(open_engine(flags.engine, cache));
  Prompt prompt = flags.prompt ? raw_prompt(*flags.prompt, *engine->tokenizer())
                               : THIMBLE_TRY(chat_prompt(*flags.turn, flags.chat, *engine));
  engine::GenerationRequest request = make_request(flags.sampling, kUsualSeed);
  request.prompt = std::move(prompt.ids);
  if (prompt.eos) request.stop_tokens = {*prompt.eos};
  THIMBLE_TRY(limit_answer(request, flags.sampling, kUsualTokens, engine->context_tokens()));
  const ConsoleAnswer answer =
      THIMBLE_TRY(run_on_console(*engine, std::move(request), std::move(prompt.reading)));
  const bool open_line = !answer.content.empty() && answer.content.back() != '\n';
  if (open_line && ::isatty(STDOUT_FILENO) == 1) std::fputs("\n", stdout);
  std::fflush(stdout);
  if (wants_notes(flags.engine)) {
    fmt::print(stderr, "{}\n",
               base::styled(base::Stream::kErr, base::Style::kDim, summary(answer)));
  }
  return answer.signal == 0 ? kExitDone : 128 + answer.signal;
}

void describe(GenerateFlags& flags, Options& options) {
  options.add("--prompt", flags.prompt, "text to continue, as it is after BOS; any bytes");
  options.add("--chat", flags.turn, "what a user says, to be answered; UTF-8");
  options.exclusive({"--prompt", "--chat"}, Need::kRequired);
  describe(flags.engine, options);
  describe(flags.sampling, options);
  describe(flags.chat, options);
}

}  // namespace

Command generate_command() {
  auto flags = std::make_shared<GenerateFlags>();
  return {
      .name = "generate",
      .summary = "Continue a text or answer one message",
      .details =
          "Standard output gets the answer and nothing else, as it is made; reasoning and notes "
          "go to standard error. Without --max-tokens an answer has at most 512 tokens, without "
          "--seed the seed is 0. Ctrl-C ends the answer where it is.",
      .examples = {{"thimble generate --model DIR --chat 'Name two primes.'", ""},
                   {"thimble generate --model DIR --chat 'Why?' --effort high", "reason first"},
                   {"thimble generate --model DIR --prompt 'Once upon' --max-tokens 40", ""}},
      .describe = [flags](Options& options) { describe(*flags, options); },
      .check = [flags] { return check(*flags); },
      .run = [flags] { return run_generate(*flags); }};
}

}  // namespace thimble::app
