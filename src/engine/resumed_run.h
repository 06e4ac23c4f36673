// Teacher forcing across a hit: the first tokens cached by a run of their own, their windows
// rebuilt by a replay policy, the rest run on top.
//
// For `logits --replay`; runs on the calling thread and the pool. Source: docs/replay.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/forced_run.h"
#include "engine/replay.h"
#include "model/forward.h"
#include "model/trace.h"

namespace thimble::engine {

struct Resumption {
  uint64_t hit = 0;  // tokens that come from the cache, fewer than there are
  Replay replay = Replay::kAuto;
  Cuts cuts;  // of the run after the hit; positions are those of the whole text
};

// The rows of `tokens` tokens that the policy runs when all logits from the hit on are wanted.
// kExact computes all of them. kAuto does where there are as many new tokens as a decoder cone, or
// no hit; else, like kBounded always, it computes those of the last window.
arch::RowPlan resumed_rows(const arch::LayerPlan& plan, uint64_t tokens, const Resumption& how);

// Logits of every position: [ids, vocab_size]. Those below the hit are the cold run's; those that
// the policy does not compute are NaN. `trace` hears of rows below the hit from the cold run alone,
// and of the others what ran.
Result<std::vector<float>> run_resumed(const model::Model& model, std::span<const int32_t> ids,
                                       const Resumption& how, base::ThreadPool& pool,
                                       model::Trace* trace = nullptr);

}  // namespace thimble::engine
