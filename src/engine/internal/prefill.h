// The way of a prompt: what of the cache it begins with, and which rows run from there to its end.
//
// A prompt is run in segments, each ending where a snapshot will be taken or the prompt ends, so
// that windows are whole there. Every segment has one row plan (arch/row_plan.h); from the second
// on it continues the windows of the one before. Pure decisions, no bytes: tests make them by hand.
// Source: docs/replay.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/replay_policy.h"
#include "arch/row_plan.h"
#include "cache/paged_cache.h"
#include "engine/replay.h"

namespace thimble::engine {

inline constexpr uint64_t kSnapshotTokens = 8192;  // a snapshot every so many prompt tokens

// Where a prompt begins.
struct Route {
  uint64_t hit = 0;                              // tokens whose entries are adopted
  std::optional<uint64_t> windows_at;            // position of the snapshot resumed from
  cache::Marks marks;                            // of that snapshot
  const cache::SnapshotUse* snapshot = nullptr;  // it
};

// Which snapshots a policy may resume from.
cache::Exactness exactness(Replay replay);

// Rows of layers that a prompt runs.
uint64_t route_cost(const arch::LayerPlan& plan, const Route& route, uint64_t prompt_tokens,
                    Replay replay);

// The cheapest of: the hit with its windows rebuilt, or any snapshot, with the entries beyond it up
// to the hit adopted all the same. Of equals, the one that rebuilds least.
Route choose_route(const arch::LayerPlan& plan, uint64_t hit,
                   std::span<const cache::SnapshotUse> snapshots, uint64_t prompt_tokens,
                   Replay replay);

// Whose logits are wanted: the prompt's last token's, or all tokens'. For all of them every row
// runs in every layer, and nothing may be cached before it.
enum class PromptOutputs { kLast, kAll };

class Prefill {
 public:
  // `snapshot_points`: positions in (0, prompt_tokens] where a snapshot is worth its while, in any
  // order; every kSnapshotTokens and the end are added. `snapshots` false: none are taken.
  Prefill(const arch::LayerPlan& plan, const Route& route, uint64_t prompt_tokens, Replay replay,
          std::vector<uint64_t> snapshot_points, bool snapshots,
          PromptOutputs outputs = PromptOutputs::kLast);

  // Rows of the current segment. REQUIRES: not done().
  const arch::RowPlan& rows() const { return rows_; }
  uint64_t begin() const { return begin_; }  // first row that runs at all
  bool done() const { return next_ == ends_.size(); }

  // Does a snapshot belong at the end of the current segment? REQUIRES: not done().
  bool wants_snapshot() const { return ends_[next_].snapshot; }
  // Its last row has run: goes on to the next.
  void end_segment();

  // What is exact once the current segment has run.
  cache::Marks marks() const { return marks_; }

 private:
  struct End {
    uint64_t position = 0;
    bool snapshot = false;
  };
  void plan_segment();

  const arch::LayerPlan& plan_;
  const Replay replay_;
  const PromptOutputs outputs_;
  uint64_t hit_ = 0;
  std::optional<uint64_t> windows_at_;
  cache::Marks marks_;
  std::vector<End> ends_;
  size_t next_ = 0;
  arch::RowPlan rows_;
  uint64_t begin_ = 0;
};

}  // namespace thimble::engine
