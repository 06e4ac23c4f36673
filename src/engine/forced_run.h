// Teacher forcing: given ids through the forward pass in given pieces, wanted logits out.
//
// For `logits`, tests and evaluations; no sampling, no queue. Runs on the calling thread and the
// pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "cache/sequence_cache.h"
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

// How ForcedSequence::run() goes about its ids.
struct ForcedRun {
  const arch::RowPlan* plan = nullptr;  // null: every row in every layer
  uint64_t chunk = 0;                   // ids a step; 0: all at once
  uint64_t logit_rows = 0;              // logits of the last so many ids
  model::Trace* trace = nullptr;
};

// One sequence driven by hand: appended to, sent back, resumed. The model and the pool must outlive
// it.
class ForcedSequence {
 public:
  static Result<ForcedSequence> create(const model::Model& model, uint64_t tokens_max,
                                       base::ThreadPool& pool);

  // Appends `ids`. logits: [run.logit_rows, vocab_size].
  Result<void> run(std::span<const int32_t> ids, const ForcedRun& run, std::span<float> logits);

  // Goes on after the tokens `before`, whose entries are there, as a hit does: with no window key,
  // or with those in the rings now and the `state` that to_bytes() made at this position or one
  // later.
  Result<void> resume_at(std::span<const int32_t> before, std::span<const std::byte> state = {});

  // Fills the window rings with bytes that read as NaN.
  void forget_windows();

  const model::SequenceState& state() const { return state_; }
  // Entries of the first `tokens` tokens of all owners: main rows as stored, index keys as floats.
  std::vector<std::byte> entry_bytes(uint64_t tokens) const;

 private:
  ForcedSequence(const model::Model& model, cache::SequenceCache cache, base::ThreadPool& pool)
      : model_(&model), cache_(std::move(cache)), state_(model.new_sequence()), pool_(&pool) {}

  const model::Model* model_;
  cache::SequenceCache cache_;
  model::SequenceState state_;
  base::ThreadPool* pool_;
  kernels::Workspace workspace_;
};

}  // namespace thimble::engine
