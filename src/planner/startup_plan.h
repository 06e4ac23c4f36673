// The bytes before they are spent: what is mapped, what a token and a sequence take, and how long a
// context the memory at hand allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "arch/cache_layout.h"
#include "arch/config.h"
#include "base/available_memory.h"
#include "base/result.h"
#include "planner/replay_costs.h"

namespace thimble::planner {

// What the user asked for.
struct StartupWishes {
  uint64_t context_tokens = 0;                  // longest prompt + answer; 0: the most that fits
  std::optional<uint64_t> kv_bytes = {};        // pool of global KV; empty: what is left
  std::optional<uint64_t> snapshot_bytes = {};  // host memory for window snapshots; empty: a tenth
  uint64_t sequences = 0;                       // that run at once; 0: as memory allows
  uint64_t step_rows = 256;                     // of prompts in a step
  bool packs = false;                           // weights laid out anew where memory allows
};

// Memory for weights that are laid out anew: those that every token reads, then the routed experts;
// 0: laid out as they are read. Source: what of the files those are made from, whose pages are
// given back.
struct PackingPlan {
  uint64_t dense_bytes = 0;
  uint64_t experts_bytes = 0;
  uint64_t source_bytes = 0;

  uint64_t bytes() const { return dense_bytes + experts_bytes; }
};
// Half of the memory at most; experts only after all the rest.
PackingPlan plan_packing(const arch::Config& config, uint64_t memory_bytes);

struct StartupPlan {
  uint64_t weights_bytes = 0;         // mapped from files, read as needed
  PackingPlan packing;                // in the fast mode
  double cache_bytes_per_token = 0;   // global KV, averaged over a block
  uint64_t block_bytes = 0;           // of kBlockTokens tokens, as the pool lays them
  uint64_t fixed_bytes = 0;           // of a sequence of any length: windows, open groups, history
  uint64_t pool_bytes = 0;            // whole blocks, shared by all sequences and the prefix cache
  uint64_t snapshot_bytes = 0;        // at most
  uint64_t context_tokens = 0;        // longest prompt + answer
  uint64_t context_tokens_model = 0;  // the model's maximum
  uint64_t sequences = 0;             // that run at once; each takes fixed_bytes
  uint64_t sequence_bytes = 0;        // of a sequence that fills the context, whole blocks
  uint64_t step_bytes = 0;            // activations of a step at the end of the context
  uint64_t process_bytes = 0;         // all of it: weights read, pool and snapshots full
  base::AvailableMemory memory;
  ReplayCosts replay;  // of a typical hit; filled in by the engine

  // Of weights, once all were read.
  uint64_t resident_weights() const {
    return weights_bytes - packing.source_bytes + packing.bytes();
  }
  bool exceeds_memory() const { return resident_weights() > memory.bytes; }
  bool clamped() const { return context_tokens < context_tokens_model; }
};

// A context or a pool asked for by number is never made smaller: kInvalidArgument when the model
// has less, kResourceExhausted when the memory has; the message says how much would do. Left to
// itself the pool takes three quarters of what the weights leave (at least half of the available
// memory: weights larger than it are read again and again), less the snapshots and what sequences
// hold beside their blocks; the rest is for a step's activations. It is not made larger than
// kContextsMax full contexts. As many sequences run at once as a kSequencesShare-th of the memory
// holds the windows of, at most kSequencesMax.
Result<StartupPlan> plan_startup(const arch::Config& config, const arch::CacheLayout& layout,
                                 uint64_t weights_bytes, const StartupWishes& wishes,
                                 const base::AvailableMemory& memory);

inline constexpr uint64_t kContextsMax = 32;
inline constexpr uint64_t kSequencesMax = 32;
inline constexpr uint64_t kSequencesShare = 32;

// A few lines for a person, each ended by a newline.
std::string to_text(const StartupPlan& plan);

}  // namespace thimble::planner
