// Teacher forcing: given ids through the forward pass in given pieces, all logits out.
//
// For `logits`, tests and evaluations; no sampling, no queue. Runs on the calling thread and the
// pool.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "model/forward.h"

namespace thimble::engine {

// How a prompt is cut into steps.
struct Cuts {
  uint64_t chunk = 256;      // prompt tokens a step, at least 1
  uint64_t decode_from = 0;  // from this position on, one token a step; 0: never
};

// Step lengths for `tokens` tokens, in order; their sum is `tokens`.
std::vector<uint64_t> step_lengths(uint64_t tokens, const Cuts& cuts);

// Logits of every position: [ids, vocab_size].
Result<std::vector<float>> run_forced(const model::Model& model, std::span<const int32_t> ids,
                                      const Cuts& cuts, base::ThreadPool& pool,
                                      model::Trace* trace = nullptr);

}  // namespace thimble::engine
