#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/thimble/commands.h"
#include "apps/thimble/console_answer.h"
#include "apps/thimble/generation_flags.h"
#include "apps/thimble/line_editor.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/random.h"
#include "base/terminal.h"
#include "server/chat_tokens.h"

namespace thimble::app {
namespace {

// Longest answers unless --max-tokens says otherwise: chat-format spec section 10.
constexpr uint32_t kUsualTokens = 8192;
constexpr uint32_t kUsualTokensThinking = 65'536;

constexpr uint64_t kAnswersBytes = 64 << 20;  // token ids of past answers

constexpr std::string_view kHelp =
    "/help             this list\n"
    "/reset            forget the conversation\n"
    "/system TEXT      tell the model something before it; without TEXT: nothing\n"
    "/effort LEVEL     reason first: low, medium, high, max, 1 to 100; none: answer at once\n"
    "/quit             leave, as Ctrl-D does\n"
    "Ctrl-C ends an answer. A line that ends in \\ goes on in the next; a message that begins "
    "with\n"
    "a slash is typed with two.\n";

struct ChatCommandFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  ChatFlags chat;
  CacheFlags cache;
};

// Where notes to a person go: shown on a terminal, and where the flags ask for all.
enum class Notes { kShown, kSilent };

uint64_t random_seed() {
  return base::mix64(static_cast<uint64_t>(base::monotonic_us()) ^
                     base::mix64(static_cast<uint64_t>(base::wall_seconds())));
}

// A conversation and what shapes it.
class Session {
 public:
  Session(const ChatCommandFlags& flags, engine::Engine& engine, text::ChatOptions options,
          const text::SpecialTokens& tokens, Notes notes)
      : flags_(flags),
        engine_(engine),
        options_(options),
        tokens_(tokens),
        notes_(notes),
        system_(flags.chat.system),
        seed_(flags.sampling.seed.value_or(random_seed())) {}

  // Answers one message; on an error the conversation is as it was.
  Result<ConsoleAnswer> answer(const std::string& message);

  void reset() { turns_.clear(); }
  void set_system(std::string text) { system_ = std::move(text); }
  void set_effort(const text::ReasoningEffort& effort) { options_.effort = effort; }
  void note(std::string_view text) const;

 private:
  Result<engine::GenerationRequest> request(engine::TextStreamOptions& reading);
  void remember(std::vector<int32_t> sampled);

  const ChatCommandFlags& flags_;
  engine::Engine& engine_;
  text::ChatOptions options_;
  const text::SpecialTokens tokens_;
  const Notes notes_;
  std::string system_;
  std::vector<text::ChatMessage> turns_;
  uint64_t seed_;  // of the next answer
  server::TurnMemory past_answers_{kAnswersBytes};
  std::optional<server::OpenTurn> open_turn_;  // of the request being answered
};

void Session::note(std::string_view text) const {
  if (notes_ == Notes::kSilent) return;
  fmt::print(stderr, "{}\n", base::styled(base::Stream::kErr, base::Style::kDim, text));
}

// Like the server: past answers keep the tokens they were sampled as.
Result<engine::GenerationRequest> Session::request(engine::TextStreamOptions& reading) {
  std::vector<text::ChatMessage> messages;
  if (!system_.empty()) messages.push_back(text::make_message(text::Role::kSystem, system_));
  messages.insert(messages.end(), turns_.begin(), turns_.end());
  const auto prompt = THIMBLE_TRY(text::render_chat(messages, options_, tokens_));
  reading.starts_in_reasoning = prompt.opens_in_reasoning;
  reading.think_close = tokens_.think_close;
  engine::GenerationRequest request = make_request(flags_.sampling, seed_);
  request.sampling.seed = seed_;
  const auto encoded =
      server::encode_chat(prompt, *engine_.tokenizer(), tokens_, "", &past_answers_);
  request.prompt = encoded.ids;
  request.snapshot_points = server::resume_points(prompt, encoded, messages, options_, tokens_);
  open_turn_ = encoded.open;
  request.stop_tokens = {tokens_.eos};
  request.replay = replay(flags_.cache);
  const uint32_t usual = options_.effort.thinking ? kUsualTokensThinking : kUsualTokens;
  THIMBLE_TRY(limit_answer(request, flags_.sampling, usual, engine_.context_tokens()));
  return request;
}

void Session::remember(std::vector<int32_t> sampled) {
  if (open_turn_) past_answers_.remember(open_turn_->place, std::move(sampled));
}

Result<ConsoleAnswer> Session::answer(const std::string& message) {
  THIMBLE_TRY(check_text("the message", message));
  turns_.push_back(text::make_message(text::Role::kUser, message));
  engine::TextStreamOptions reading;
  auto asked = request(reading);
  auto answer = asked ? run_on_console(engine_, std::move(*asked), reading)
                      : Result<ConsoleAnswer>(tl::unexpected(asked.error()));
  if (!answer) {
    turns_.pop_back();
    return answer;
  }
  ++seed_;
  remember(answer->sampled);
  // What was shown is what was said, an interrupted answer too.
  turns_.push_back(text::make_message(text::Role::kAssistant, answer->content, answer->reasoning));
  return answer;
}

// The name after the slash and the rest of the line, without the blanks between them.
std::pair<std::string_view, std::string_view> split_command(std::string_view line) {
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  std::string_view rest = line.substr(end);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
  while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\t')) rest.remove_suffix(1);
  return {line.substr(1, end - 1), rest};
}

enum class Next { kGoOn, kQuit, kInterrupted, kTerminated };

Result<Next> run_command(std::string_view line, Session& session) {
  const auto [name, rest] = split_command(line);
  if (name == "quit" || name == "exit") return Next::kQuit;
  if (name == "help") {
    fmt::print(stderr, "{}", kHelp);
  } else if (name == "reset") {
    session.reset();
    session.note("The conversation is forgotten.");
  } else if (name == "system") {
    THIMBLE_TRY(check_text("/system", rest));
    session.set_system(std::string(rest));
    session.note(rest.empty() ? "No system text." : "System text set.");
  } else if (name == "effort") {
    const auto effort = THIMBLE_TRY(base::in(text::parse_effort(rest), "/effort"));
    session.set_effort(effort);
    session.note(effort.thinking ? fmt::format("Reasons first, effort {}.", effort.budget)
                                 : std::string("Answers at once."));
  } else {
    return base::fail(ErrorCode::kInvalidArgument,
                      "/{} is no command; /help lists them, // begins a message with a slash",
                      name);
  }
  return Next::kGoOn;
}

Result<Next> run_message(const std::string& message, const ChatCommandFlags& flags,
                         Session& session) {
  const ConsoleAnswer answer = THIMBLE_TRY(session.answer(message));
  if (!answer.content.ends_with('\n')) std::fputs("\n", stdout);
  std::fflush(stdout);
  if (answer.signal != 0 || flags.engine.verbose) session.note(summary(answer));
  if (answer.signal == SIGTERM) return Next::kTerminated;
  return answer.signal == 0 ? Next::kGoOn : Next::kInterrupted;
}

enum class LineKind { kBlank, kMessage, kCommand };

// Takes the blanks and the doubled slash off that are not part of the message or command.
LineKind classify(std::string& line) {
  const size_t first = line.find_first_not_of(" \t\n");
  if (first == std::string::npos) return LineKind::kBlank;
  if (line[first] != '/') return LineKind::kMessage;
  const bool doubled = line.compare(first, 2, "//") == 0;
  line.erase(0, doubled ? first + 1 : first);
  return doubled ? LineKind::kMessage : LineKind::kCommand;
}

void print_error(const Error& error) {
  fmt::print(stderr, "{} {}\n",
             base::styled(base::Stream::kErr, base::Style::kRed, "thimble chat:"),
             error.describe());
}

// A person reads an error and goes on. In a pipe a message that cannot be answered ends it: what
// follows may depend on the answer. A command that is none is left out, and tells in the status.
Result<int> converse(LineEditor& editor, const ChatCommandFlags& flags, Session& session) {
  int status = kExitDone;
  while (true) {
    std::string line;
    const LineEditor::Event event = editor.read(line);
    if (event == LineEditor::Event::kEnd) return status;
    if (event == LineEditor::Event::kInterrupt) continue;
    const LineKind kind = classify(line);
    if (kind == LineKind::kBlank) continue;
    const bool is_message = kind == LineKind::kMessage;
    const Result<Next> next =
        is_message ? run_message(line, flags, session) : run_command(line, session);
    if (next == Next::kQuit) return status;
    if (next == Next::kTerminated) return 128 + SIGTERM;
    if (next == Next::kInterrupted && !editor.interactive()) return 128 + SIGINT;
    if (next) continue;
    if (!editor.interactive() && is_message) return tl::unexpected(next.error());
    print_error(next.error());
    if (!editor.interactive()) status = kExitFailed;
  }
}

Result<int> run_chat(const ChatCommandFlags& flags) {
  const auto options = THIMBLE_TRY(chat_options(flags.chat));
  const auto engine = THIMBLE_TRY(open_engine(flags.engine, flags.cache));
  const auto tokens = THIMBLE_TRY(base::in(engine->chat_tokens(), flags.engine.model.string()));
  LineEditor editor(Path(base::env_home()) / "chat_history");
  const bool shown = editor.interactive() || flags.engine.verbose;
  Session session(flags, *engine, options, tokens, shown ? Notes::kShown : Notes::kSilent);
  if (editor.interactive()) {
    session.note(fmt::format("{}. /help lists the commands, Ctrl-D leaves.", engine->model_name()));
  }
  return converse(editor, flags, session);
}

Result<void> check(const ChatCommandFlags& flags) {
  THIMBLE_TRY(check(flags.engine));
  THIMBLE_TRY(check(flags.sampling));
  THIMBLE_TRY(check(flags.cache));
  return check(flags.chat);
}

void describe(ChatCommandFlags& flags, Options& options) {
  describe(flags.engine, options);
  describe(flags.sampling, options);
  describe(flags.chat, options);
  describe(flags.cache, options);
}

}  // namespace

Command chat_command() {
  auto flags = std::make_shared<ChatCommandFlags>();
  return {
      .name = "chat",
      .summary = "Talk with a model in the terminal",
      .details =
          "Answers go to standard output as they are made, everything else to standard error. "
          "Reasoning is on when --effort is given. From a pipe each line is a message or a "
          "command (/help), and without --verbose only answers, reasoning and errors are "
          "shown. There a command that is unknown or fails is reported and left out, and the "
          "exit status is 1 in the end; a message that cannot be answered ends it with 1. Lines "
          "must be UTF-8.",
      .examples = {{"thimble chat --model DIR", ""},
                   {"thimble chat --model DIR --effort high --system 'Be brief.'", ""},
                   {"thimble chat --model DIR < questions.txt > answers.txt", ""}},
      .describe = [flags](Options& options) { describe(*flags, options); },
      .check = [flags] { return check(*flags); },
      .run = [flags] { return run_chat(*flags); }};
}

}  // namespace thimble::app
