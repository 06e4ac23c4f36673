// Flags that `generate` and `chat` share, and what they become.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/thimble/cache_flags.h"
#include "apps/thimble/options.h"
#include "base/file.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "text/chat_format.h"

namespace thimble::app {

struct EngineFlags {
  Path model;
  std::string mode = "fast";
  uint32_t threads = 0;
  uint64_t context = 0;
  bool verbose = false;
};

void describe(EngineFlags& flags, Options& options);

Result<void> check(const EngineFlags& flags);

// Opens the model; it must have a tokenizer. Prints the plan of bytes when the flags or a terminal
// on standard error ask for it.
Result<std::unique_ptr<engine::Engine>> open_engine(const EngineFlags& flags,
                                                    const CacheFlags& cache);

// Is standard error for a person's eyes, or did the flags ask for all of it?
bool wants_notes(const EngineFlags& flags);

struct SamplingFlags {
  double temperature = 1.0;  // defaults of the open weights, chat-format spec section 10
  double top_p = 0.95;
  uint32_t top_k = 0;
  double min_p = 0;
  std::optional<uint64_t> seed;
  std::optional<uint32_t> max_tokens;
};

void describe(SamplingFlags& flags, Options& options);

Result<void> check(const SamplingFlags& flags);

// A request without its prompt; `seed` is what an absent --seed stands for.
engine::GenerationRequest make_request(const SamplingFlags& flags, uint64_t seed);

// Sets max_tokens: what the flag says, else `usual` or as much of it as the context still holds.
// kInvalidArgument when not a single token fits.
Result<void> limit_answer(engine::GenerationRequest& request, const SamplingFlags& flags,
                          uint32_t usual, uint64_t context_tokens);

struct ChatFlags {
  std::string system;
  std::optional<std::string> effort;
  std::string encoding = "recipe";
};

void describe(ChatFlags& flags, Options& options);

Result<void> check(const ChatFlags& flags);

// Turns of a conversation are text: kInvalidArgument names what is not and its first bad byte.
Result<void> check_text(std::string_view what, std::string_view text);

// Thinking is on exactly when an effort is given.
Result<text::ChatOptions> chat_options(const ChatFlags& flags);

}  // namespace thimble::app
