// Teacher forcing: given ids through the forward pass in given pieces, wanted logits out.
//
// For `logits`, tests and evaluations; no sampling, no queue. Runs on the calling thread and the
// pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "cache/paged_cache.h"
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

// One sequence driven by hand, in a paged cache of its own: appended to, ended, found again. The
// model and the pool must outlive it.
class ForcedSequence {
 public:
  // Sequences of at most `tokens_max` tokens; the cache holds a few of them.
  static Result<ForcedSequence> create(const model::Model& model, uint64_t tokens_max,
                                       base::ThreadPool& pool);

  // Appends `ids`. logits: [run.logit_rows, vocab_size].
  Result<void> run(std::span<const int32_t> ids, const ForcedRun& run, std::span<float> logits);

  // For measurements: appends `ids` without running them. Their rows hold random codes under scales
  // of one, as finite as the model's own. REQUIRES: a packed cache, whole blocks of tokens before
  // and after.
  Result<void> append_random(std::span<const int32_t> ids, uint64_t seed);

  // Keeps a snapshot of the windows here.
  Result<void> keep_snapshot();

  // Ends the sequence and begins the next with the first `hit` tokens of `ids`, whose entries must
  // be cached: runs go on at `begin`, from the snapshot that is good there or with no window at
  // all. kNotFound when the cache has no such entries or snapshot.
  enum class Windows { kNone, kSnapshot };
  Result<void> reopen(std::span<const int32_t> ids, uint64_t hit, uint64_t begin, Windows windows);

  // Shortens the sequence to `ids`, of which those from `begin` on will run again to rebuild the
  // windows.
  Result<void> rewind(std::span<const int32_t> ids, uint64_t begin);
  // The same for a step or a few that were not accepted (at most kWindowSlackRows tokens): back to
  // `before`, a copy of state() from then.
  Result<void> reject(const model::SequenceState& before);
  // A second sequence that goes on from here, over the same cache.
  Result<ForcedSequence> fork();
  const model::SequenceState& state() const { return state_; }

  // What follows may be approximate: it is not shared (cache::Sequence::mark_private).
  void mark_private() { cached_->mark_private(); }

  // Entries of the first `tokens` tokens of all owners: main rows as stored, index keys as floats.
  std::vector<std::byte> entry_bytes(uint64_t tokens) const;
  const cache::PagedCache& cache() const { return *cache_; }

 private:
  ForcedSequence() = default;

  const model::Model* model_ = nullptr;
  base::ThreadPool* pool_ = nullptr;
  uint64_t tokens_max_ = 0;
  std::shared_ptr<cache::PagedCache> cache_;  // of all forks
  std::unique_ptr<cache::Sequence> cached_;
  model::SequenceState state_;
  kernels::Workspace workspace_;
};

}  // namespace thimble::engine
