// The bytes before they are spent: what is mapped, what a token and a sequence take, and how long a
// context the memory at hand allows.
#pragma once

#include <cstdint>
#include <string>

#include "arch/cache_layout.h"
#include "arch/config.h"
#include "base/result.h"
#include "engine/memory.h"

namespace thimble::engine {

struct StartupPlan {
  uint64_t weights_bytes = 0;         // mapped from files, read as needed
  double cache_bytes_per_token = 0;   // global KV, averaged over a block
  uint64_t fixed_bytes = 0;           // of a sequence of any length: windows, open groups, history
  uint64_t context_tokens = 0;        // longest prompt + answer
  uint64_t context_tokens_model = 0;  // the model's maximum
  uint64_t sequence_bytes = 0;        // of a sequence that fills the context, whole blocks
  AvailableMemory memory;
  uint64_t cache_bytes_max = 0;  // the share of it that a sequence may take

  bool clamped() const { return context_tokens < context_tokens_model; }
};

// `context_tokens`: wanted; 0: the model's maximum or what fits. A context asked for by number is
// never made smaller: kInvalidArgument when the model has less, kResourceExhausted when the memory
// has; the message says how much would do. Caches may take half of the available memory: the other
// half is for a step's activations and for the weights' pages.
Result<StartupPlan> plan_startup(const arch::Config& config, const arch::CacheLayout& layout,
                                 uint64_t weights_bytes, uint64_t context_tokens,
                                 const AvailableMemory& memory);

// A few lines for a person, each ended by a newline.
std::string to_text(const StartupPlan& plan);

}  // namespace thimble::engine
