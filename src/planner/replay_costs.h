// What each replay policy costs after a hit, in layer-tokens and, once a run was timed, in seconds.
//
// A layer-token is one row through one layer: the unit that policies differ in. Seconds take every
// one of them for equally long, which is about right for rows of a prompt. Pure
// arithmetic; engine/layer_token_time.h measures. Source: docs/replay.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "arch/layer_plan.h"

namespace thimble::planner {

struct ReplayCosts {
  uint64_t hit = 0;         // cached tokens; 0: nothing was worked out
  uint64_t new_tokens = 0;  // after them
  // Layer-tokens of the prompt: from a snapshot at the hit, by policy without one, without the hit.
  uint64_t snapshot = 0;
  uint64_t exact = 0;
  uint64_t automatic = 0;
  uint64_t bounded = 0;
  uint64_t cold = 0;
  std::optional<double> layer_token_us = {};
  std::string untimed;  // why there is no time; empty: nobody asked
};

// REQUIRES: new_tokens > 0.
ReplayCosts replay_costs(const arch::LayerPlan& plan, uint64_t hit, uint64_t new_tokens);

// Of a hit and a question as chats have them, where a context holds so many tokens.
ReplayCosts typical_replay_costs(const arch::LayerPlan& plan, uint64_t context_tokens);

// Two or three lines for a person, each ended by a newline; nothing where nothing was worked out.
std::string to_text(const ReplayCosts& costs);

}  // namespace thimble::planner
