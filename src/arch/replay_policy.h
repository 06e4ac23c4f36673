// How far a request lets window state be rebuilt instead of kept, and the rows that follow from it.
// Source: docs/replay.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "arch/row_plan.h"
#include "base/result.h"

namespace thimble::arch {

enum class Replay {
  kAuto,     // entries always exact; decoder windows exact unless the new text is short after a hit
  kExact,    // every bit as in an uninterrupted run
  kBounded,  // one window of rows in either half; what it computes stays private to its sequence
};

// "auto", "exact", "bounded"; kInvalidArgument lists them.
Result<Replay> parse_replay(std::string_view name);
const char* to_string(Replay replay);

// The rows of a prompt that ends at `end` and whose last logits are wanted: what the policy lets be
// bounded. `windows_at`: a snapshot's position, `windows_exact` its decoder's.
RowPlanInput row_plan_input(const LayerPlan& plan, uint64_t hit, std::optional<uint64_t> windows_at,
                            bool windows_exact, uint64_t end, Replay replay);

}  // namespace thimble::arch
