// The narrow waist between engine and model: sequences that grow by steps, logits of their last
// token.
//
// The engine's logic (queue, cancellation, sampling, limits) knows a model only through this
// interface, so that tests run it on a small deterministic one. Batching, shared cache pages and
// prefix reuse come in behind it. Used by the engine thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace thimble::engine {

// What a runner keeps of one sequence; only the runner that made it looks inside.
class RunnerSequence {
 public:
  virtual ~RunnerSequence() = default;
};

// Some tokens of one sequence, to be appended.
struct Step {
  RunnerSequence* sequence = nullptr;
  std::span<const int32_t> ids;  // not empty, each below vocab_size
  std::span<float> logits;       // out [vocab_size], after the last id; empty: not wanted
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual uint32_t vocab_size() const = 0;
  // An empty sequence that will hold at most `tokens_max` tokens.
  virtual Result<std::unique_ptr<RunnerSequence>> start(uint64_t tokens_max) = 0;
  // Appends every step's ids to its sequence. All or nothing: after an error the sequences are as
  // they were.
  virtual Result<void> run(std::span<const Step> steps) = 0;
};

}  // namespace thimble::engine
