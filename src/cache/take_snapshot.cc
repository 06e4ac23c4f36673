#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "cache/internal/block_rows.h"
#include "cache/internal/core.h"
#include "cache/sequence.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;

// The snapshot of exactly these tokens that hangs at `node` and could be replaced or kept.
Snapshot* same_place(const PrefixNode& node, const TokenView& remaining, const Marks& marks) {
  for (Snapshot* snapshot : node.snapshots) {
    const TokenView its = snapshot->remaining.view();
    if (its.size() != remaining.size() || compare(its, remaining).order != 0) continue;
    if (at_least(snapshot->marks, marks) || at_least(marks, snapshot->marks)) return snapshot;
  }
  return nullptr;
}

}  // namespace

Result<void> Sequence::take_snapshot(Bytes model) {
  discard_uncommitted();
  const TokenView remaining = tokens().slice(node_->end(), length());
  if (Snapshot* const there = same_place(*node_, remaining, marks())) {
    if (at_least(there->marks, marks())) {
      core_.snapshots.touch(*there, core_.clock_us());
      return {};
    }
    if (there->pins == 0) core_.drop(*there);
  }
  auto taken = make_snapshot(model);
  if (!taken) {
    ++core_.counters.snapshots_refused;
    return tl::unexpected(std::move(taken).error());
  }
  core_.snapshots.add(std::move(*taken), core_.clock_us());
  ++core_.counters.snapshots_taken;
  return {};
}

Result<std::unique_ptr<Snapshot>> Sequence::make_snapshot(Bytes model) {
  if (!rings_.can_pack(length())) {
    return base::fail(
        ErrorCode::kInvalidArgument,
        "a snapshot at {} needs the windows of {} tokens before it; [{}, {}) are there", length(),
        core_.windows.snapshot_rows(length()), rings_.begin(), rings_.end());
  }
  auto snapshot = std::make_unique<Snapshot>();
  snapshot->position = length();
  snapshot->marks = marks();
  snapshot->private_from = private_from_;
  snapshot->remaining = TokenLog(tokens().slice(node_->end(), length()));
  snapshot->model.assign(model.begin(), model.end());
  snapshot->node = node_;
  THIMBLE_TRY(core_.make_snapshot_room(snapshot->bytes() + core_.windows.snapshot_bytes(length())));
  const uint64_t full = core_.paged() ? length() / kBlockTokens : 0;
  const bool has_partial = core_.paged() && length() % kBlockTokens != 0;
  if (has_partial) THIMBLE_TRY(core_.make_room(1));
  // From here on nothing fails.
  for (uint64_t i = indexed_blocks(); i < full; ++i) {
    core_.pool.share(blocks_[i]);
    snapshot->blocks.push_back(blocks_[i]);
  }
  if (has_partial) {
    const BlockId copy = *core_.pool.take();
    copy_entries(core_.layout, core_.pool.data(blocks_[full]), length() % kBlockTokens,
                 core_.pool.data(copy));
    snapshot->blocks.push_back(copy);
  }
  snapshot->windows = rings_.pack(length());
  return snapshot;
}

}  // namespace thimble::cache
