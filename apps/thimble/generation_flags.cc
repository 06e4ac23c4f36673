#include "apps/thimble/generation_flags.h"
#include "apps/thimble/mode_flag.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/terminal.h"
#include "engine/sampler.h"
#include "text/utf8.h"

namespace thimble::app {

void describe(EngineFlags& flags, Options& options) {
  options.add("--model", flags.model, "directory of the model", Need::kRequired);
  options.choice("--mode", flags.mode, {"fast", "exact", "nokvq"}, "arithmetic (docs/numerics.md)");
  options.add("--threads", flags.threads, "compute threads; 0: one per CPU");
  options.add("--context", flags.context,
              "longest prompt and answer; 0: what model and memory allow");
  options.flag("--verbose", flags.verbose, "notes on standard error even where nobody looks");
}

Result<void> check(const EngineFlags& flags) {
  return check_range("--threads", flags.threads, 0, engine::kThreadsMax);
}

Result<std::unique_ptr<engine::Engine>> open_engine(const EngineFlags& flags,
                                                    const CacheFlags& cache) {
  engine::EngineOptions options;
  options.model_dir = flags.model;
  options.mode = mode_of(flags.mode);
  options.threads = flags.threads;
  options.context_tokens = flags.context;
  options.sequences_max = 1;
  apply(cache, options);
  auto engine = THIMBLE_TRY(engine::Engine::open(options));
  if (engine->tokenizer() == nullptr) {
    return base::fail(ErrorCode::kNotFound, "{} has no tokenizer.json: it knows no text",
                      flags.model.string());
  }
  if (wants_notes(flags)) {
    const std::string plan = planner::to_text(engine->plan());
    fmt::print(stderr, "{}", base::styled(base::Stream::kErr, base::Style::kDim, plan));
  }
  return engine;
}

bool wants_notes(const EngineFlags& flags) { return flags.verbose || ::isatty(STDERR_FILENO) == 1; }

void describe(SamplingFlags& flags, Options& options) {
  options.add("--max-tokens", flags.max_tokens, "longest answer");
  options.add("--temperature", flags.temperature, "0 takes the most likely token, up to 2");
  options.add("--top-p", flags.top_p, "keep the likeliest tokens of this joint share; 1: all");
  options.add("--top-k", flags.top_k, "keep so many of the likeliest tokens; 0: all");
  options.add("--min-p", flags.min_p, "drop tokens less likely than this share of the likeliest");
  options.add("--seed", flags.seed, "the same seed and prompt give the same answer");
}

Result<void> check(const SamplingFlags& flags) {
  if (flags.max_tokens) THIMBLE_TRY(check_range("--max-tokens", *flags.max_tokens, 1, UINT32_MAX));
  return engine::validate(make_request(flags, 0).sampling);
}

engine::GenerationRequest make_request(const SamplingFlags& flags, uint64_t seed) {
  engine::GenerationRequest request;
  request.sampling.temperature = static_cast<float>(flags.temperature);
  request.sampling.top_p = static_cast<float>(flags.top_p);
  request.sampling.top_k = flags.top_k;
  request.sampling.min_p = static_cast<float>(flags.min_p);
  request.sampling.seed = flags.seed.value_or(seed);
  return request;
}

Result<void> limit_answer(engine::GenerationRequest& request, const SamplingFlags& flags,
                          uint32_t usual, uint64_t context_tokens) {
  const uint64_t prompt = request.prompt.size();
  if (prompt >= context_tokens) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "the prompt has {} tokens and the context holds {}: no room for an answer",
                      prompt, context_tokens);
  }
  const uint64_t left = context_tokens - prompt;
  request.max_tokens =
      flags.max_tokens.value_or(static_cast<uint32_t>(std::min<uint64_t>(usual, left)));
  return {};
}

void describe(ChatFlags& flags, Options& options) {
  options.add("--system", flags.system, "what the model is told before the conversation");
  options.add("--effort", flags.effort,
              "let it reason first: low, medium, high, max, or 1 to 100 (else it answers at once)");
  options.choice("--chat-encoding", flags.encoding, {"recipe", "ref"},
                 "how conversations become prompts");
}

Result<void> check(const ChatFlags& flags) {
  THIMBLE_TRY(check_text("--system", flags.system));
  THIMBLE_TRY(chat_options(flags));
  return {};
}

Result<void> check_text(std::string_view what, std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const text::Utf8Step step = text::next_code_point(rest);
    if (!step.valid) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "{} is not valid UTF-8 (byte {} of {}): a conversation is text", what,
                        text.size() - rest.size() + 1, text.size());
    }
    rest.remove_prefix(step.bytes);
  }
  return {};
}

Result<text::ChatOptions> chat_options(const ChatFlags& flags) {
  text::ChatOptions options;
  options.encoding = THIMBLE_TRY(text::parse_chat_encoding(flags.encoding));
  options.effort.thinking = false;
  if (flags.effort) {
    options.effort = THIMBLE_TRY(base::in(text::parse_effort(*flags.effort), "--effort"));
  }
  return options;
}

}  // namespace thimble::app
