// The narrow waist between engine and model: sequences that grow by steps, logits of their last
// token.
//
// The engine's logic (queue, cancellation, sampling, limits) knows a model only through this
// interface, so that tests run it on a small deterministic one. Shared cache pages and prefix reuse
// come in behind it. Used by the engine thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "engine/replay.h"
#include "engine/request.h"

namespace thimble::engine {

// What a new sequence is for.
struct SequenceSpec {
  std::span<const int32_t> prompt;  // not empty; read by start() alone
  uint64_t tokens_max = 0;          // prompt and answer
  Replay replay = Replay::kAuto;
  std::string salt;                       // tenant: nothing is shared between different ones
  bool reuse = true;                      // may it begin with what is cached?
  bool all_rows = false;                  // steps of the prompt want logits of every token
  std::vector<uint64_t> snapshot_points;  // prompt lengths that will be asked for again
};

// What a sequence began with, and how far its bits are to be trusted.
struct ReuseUsage {
  uint64_t cached_tokens = 0;  // the hit: entries adopted
  bool exact = true;           // is every bit that of an uninterrupted run?
};

// What a runner keeps of one sequence; only the runner that made it looks inside.
class RunnerSequence {
 public:
  virtual ~RunnerSequence() = default;
  // First prompt token that its steps must bring.
  virtual uint64_t begin() const { return 0; }
  // A prompt step that begins at `position` may not go beyond this one.
  virtual uint64_t step_end_max(uint64_t position) const {
    (void)position;
    return UINT64_MAX;
  }
  virtual ReuseUsage usage() const { return {}; }
  // What the rows of the tokens [from, to) cost: a row of a layer is 1.
  virtual uint64_t layer_rows(uint64_t from, uint64_t to) const { return to - from; }
  // Cache blocks that it lacks for a length of `tokens`.
  virtual uint64_t blocks_missing(uint64_t tokens) const {
    (void)tokens;
    return 0;
  }
  // Will others of its salt find what it computes?
  virtual bool publishes() const { return true; }
  // False once a step that broke off has taken rows along that the next would need.
  virtual bool intact() const { return true; }
};

// Some tokens of one sequence, to be appended.
struct Step {
  RunnerSequence* sequence = nullptr;
  std::span<const int32_t> ids;  // not empty, each below vocab_size
  std::span<float> logits;       // out [rows, vocab_size], after the last `rows` ids; may be empty
  const base::Stop* stop = nullptr;  // due once nobody wants it; may be null
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual uint32_t vocab_size() const = 0;
  // A sequence that goes on where the cache's knowledge of the prompt ends.
  virtual Result<std::unique_ptr<RunnerSequence>> start(const SequenceSpec& spec) = 0;

  // Would it cost less to wait until another has computed the first `tokens` tokens of the prompt?
  // `whole`: that is the other's whole prompt, so windows will be there too.
  virtual bool is_worth_waiting(const SequenceSpec& spec, uint64_t tokens, bool whole) {
    (void)spec, (void)tokens, (void)whole;
    return false;
  }

  // Room for one step, which is run or given back before the sequence's next one. kUnavailable:
  // other sequences hold what it takes; nothing has changed then.
  virtual Result<void> reserve(const Step& step) {
    (void)step;
    return {};
  }
  virtual void unreserve(RunnerSequence& sequence) { (void)sequence; }
  // Appends every step's ids to its sequence, of which each has one step at most and room for it.
  // All or nothing: after an error the sequences are as they were, without that room, or no more
  // intact(). kCancelled: all steps were stopped.
  virtual Result<void> run(std::span<const Step> steps) = 0;

  // The sequence's request ended as it should: what may serve a later one is kept.
  virtual void finish(RunnerSequence& sequence) { (void)sequence; }
  // The sequence will be dropped and started again with all its tokens: what makes that cheap is
  // kept.
  virtual void pause(RunnerSequence& sequence) { (void)sequence; }

  // Blocks that are free or may be evicted.
  virtual uint64_t blocks_available() const { return UINT64_MAX; }
  // Nothing runs: time for upkeep.
  virtual void idle() {}
  virtual CacheUse cache_use() const { return {}; }
};

}  // namespace thimble::engine
