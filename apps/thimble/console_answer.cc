#include "apps/thimble/console_answer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/thimble/interrupts.h"
#include "base/terminal.h"
#include "text/utf8.h"

namespace thimble::app {
namespace {

constexpr auto kSignalPoll = std::chrono::milliseconds(50);

// Text on its way from the engine's thread to the caller's.
class Handover : public engine::GenerationSink {
 public:
  Handover(const text::Tokenizer& tokenizer, engine::TextStreamOptions options)
      : stream_(tokenizer, std::move(options)) {}

  Next on_token(const engine::GeneratedToken& token) override {
    const std::lock_guard lock(mutex_);
    sampled_.push_back(token.token);
    add(stream_.push(token.token));
    return stream_.stopped() ? Next::kStop : Next::kContinue;
  }

  void on_end(const engine::GenerationEnd& end) override {
    const std::lock_guard lock(mutex_);
    add(stream_.finish());
    end_ = end;
    changed_.notify_all();
  }

  // What came since the last call, after a short wait for it; true once nothing more comes.
  bool take(engine::TextDelta& delta) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kSignalPoll, [&] { return !waiting_.empty() || end_.has_value(); });
    delta = std::exchange(waiting_, {});
    return end_.has_value();
  }

  // REQUIRES: take() was true.
  const engine::GenerationEnd& end() const { return *end_; }
  std::vector<int32_t> sampled() const { return sampled_; }

 private:
  void add(const engine::TextDelta& delta) {
    waiting_.reasoning += delta.reasoning;
    waiting_.content += delta.content;
    if (!waiting_.empty()) changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  engine::TextStream stream_;
  engine::TextDelta waiting_;
  std::vector<int32_t> sampled_;
  std::optional<engine::GenerationEnd> end_;
};

// What a terminal may be given: control characters could move its cursor or worse, so a person sees
// them as U+FFFD. A pipe or file gets the bytes as they are.
std::string for_stream(FILE* stream, const std::string& text) {
  if (::isatty(::fileno(stream)) != 1) return text;
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const text::Utf8Step step = text::next_code_point(rest);
    const char32_t c = step.code_point;
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
    out += control ? text::kReplacementUtf8 : rest.substr(0, step.bytes);
    rest.remove_prefix(step.bytes);
  }
  return out;
}

void show(const engine::TextDelta& delta, ConsoleAnswer& answer) {
  if (!delta.reasoning.empty()) {
    answer.reasoning += delta.reasoning;
    fmt::print(
        stderr, "{}",
        base::styled(base::Stream::kErr, base::Style::kDim, for_stream(stderr, delta.reasoning)));
  }
  if (!delta.content.empty()) {
    const bool after_reasoning = answer.content.empty() && !answer.reasoning.empty();
    if (after_reasoning) std::fputs("\n\n", stderr);
    const std::string shown = for_stream(stdout, delta.content);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    std::fflush(stdout);
  }
  answer.content += delta.content;
}

const char* reason_text(const ConsoleAnswer& answer) {
  switch (answer.end.reason) {
    case engine::FinishReason::kStop:
      return "ended by the model";
    case engine::FinishReason::kLength:
      return "cut at --max-tokens";
    case engine::FinishReason::kCancelled:
      return "interrupted";
    case engine::FinishReason::kError:
      return "ended by an error";
  }
  return "?";
}

}  // namespace

Result<ConsoleAnswer> run_on_console(engine::Engine& engine, engine::GenerationRequest request,
                                     engine::TextStreamOptions options) {
  const Interrupts interrupts;
  const auto handover = std::make_shared<Handover>(*engine.tokenizer(), std::move(options));
  const engine::RequestId id = THIMBLE_TRY(engine.submit(std::move(request), handover));
  ConsoleAnswer answer;
  for (bool over = false; !over;) {
    engine::TextDelta delta;
    over = handover->take(delta);
    show(delta, answer);
    if (answer.signal == 0 && interrupts.pending() != 0) {
      answer.signal = interrupts.pending();
      engine.cancel(id);
    }
  }
  if (answer.content.empty() && !answer.reasoning.empty()) std::fputs("\n", stderr);
  answer.end = handover->end();
  answer.sampled = handover->sampled();
  if (answer.end.error) return tl::unexpected(*answer.end.error);
  if (std::ferror(stdout) != 0) {
    return base::fail(ErrorCode::kIo, "the answer could not be written to standard output");
  }
  return answer;
}

std::string summary(const ConsoleAnswer& answer) {
  const engine::GenerationEnd& end = answer.end;
  const double prefill = static_cast<double>(end.prefill_us) * 1e-6;
  const double decode = static_cast<double>(end.decode_us) * 1e-6;
  // The first token comes out of the prompt's last step.
  const uint64_t decoded = end.completion_tokens > 0 ? end.completion_tokens - 1 : 0;
  const std::string speed =
      decoded > 0 && decode > 0
          ? fmt::format(" ({:.1f} a second)", static_cast<double>(decoded) / decode)
          : std::string();
  const std::string cached =
      end.cached_tokens > 0 ? fmt::format(" ({} cached)", end.cached_tokens) : std::string();
  return fmt::format("{} prompt tokens{} in {:.2f} s, {} generated in {:.2f} s{}, {}",
                     end.prompt_tokens, cached, prefill, end.completion_tokens, decode, speed,
                     reason_text(answer));
}

}  // namespace thimble::app
