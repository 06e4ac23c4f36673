#include "engine/startup_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace thimble::engine {
namespace {

using base::human_bytes;
using base::with_commas;

// Rings as cache/sequence_cache.cc allocates them, slack included.
uint64_t fixed_bytes(const arch::Config& config, const arch::CacheLayout& layout) {
  const arch::SequenceBytes bytes = arch::sequence_bytes(config, layout);
  const uint64_t slack =
      uint64_t{layout.window_layers} * arch::kWindowSlackRows * layout.window_row_bytes;
  return bytes.windows + slack + bytes.half_pairs + bytes.engram_history;
}

// The longest sequence of whole blocks that takes at most `bytes`.
uint64_t tokens_that_fit(const arch::CacheLayout& layout, uint64_t fixed, uint64_t bytes,
                         uint64_t tokens_max) {
  if (bytes < fixed) return 0;
  if (layout.block_bytes == 0) return tokens_max;
  const uint64_t blocks = (bytes - fixed) / layout.block_bytes;
  return std::min(tokens_max, blocks * arch::kBlockTokens);
}

std::string memory_text(const StartupPlan& plan) {
  return fmt::format("{} available ({}), of which caches may take {}",
                     human_bytes(plan.memory.bytes), plan.memory.limited_by,
                     human_bytes(plan.cache_bytes_max));
}

}  // namespace

Result<StartupPlan> plan_startup(const arch::Config& config, const arch::CacheLayout& layout,
                                 uint64_t weights_bytes, uint64_t context_tokens,
                                 const AvailableMemory& memory) {
  StartupPlan plan;
  plan.weights_bytes = weights_bytes;
  plan.cache_bytes_per_token = arch::global_bytes_per_token(layout);
  plan.fixed_bytes = fixed_bytes(config, layout);
  plan.context_tokens_model = config.max_position_embeddings;
  plan.memory = memory;
  plan.cache_bytes_max = memory.bytes / 2;
  if (context_tokens > plan.context_tokens_model) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "a context of {} tokens was asked for, the model's maximum is {}",
                      with_commas(context_tokens), with_commas(plan.context_tokens_model));
  }
  const uint64_t wanted = context_tokens != 0 ? context_tokens : plan.context_tokens_model;
  const uint64_t fits =
      tokens_that_fit(layout, plan.fixed_bytes, plan.cache_bytes_max, plan.context_tokens_model);
  if (fits == 0 || (context_tokens != 0 && context_tokens > fits)) {
    return base::fail(ErrorCode::kResourceExhausted,
                      "a context of {} tokens takes {} bytes, but memory has {}: {} tokens fit",
                      with_commas(wanted),
                      with_commas(plan.fixed_bytes + layout.reserved_bytes(wanted)),
                      memory_text(plan), with_commas(fits));
  }
  plan.context_tokens = std::min(wanted, fits);
  plan.sequence_bytes = plan.fixed_bytes + layout.reserved_bytes(plan.context_tokens);
  return plan;
}

std::string to_text(const StartupPlan& plan) {
  std::string text = fmt::format("weights   {} bytes mapped ({})\n",
                                 with_commas(plan.weights_bytes), human_bytes(plan.weights_bytes));
  text += fmt::format("cache     {:.10g} bytes a token, and {} bytes a sequence\n",
                      plan.cache_bytes_per_token, with_commas(plan.fixed_bytes));
  text += fmt::format("context   {} tokens{}; a sequence that fills it takes {} bytes ({})\n",
                      with_commas(plan.context_tokens),
                      plan.clamped() ? fmt::format(" (the model's maximum is {})",
                                                   with_commas(plan.context_tokens_model))
                                     : std::string(),
                      with_commas(plan.sequence_bytes), human_bytes(plan.sequence_bytes));
  text += fmt::format("memory    {}\n", memory_text(plan));
  if (plan.weights_bytes > plan.memory.bytes) {
    text += "          less than the weights: they will be read from disk again and again\n";
  }
  return text;
}

}  // namespace thimble::engine
