#include "cache/snapshot_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace thimble::cache {

bool accepts(Exactness wanted, const Marks& marks) {
  if (!marks.encoder_exact) return wanted == Exactness::kAny;
  return marks.decoder_exact || wanted != Exactness::kExact;
}

bool at_least(const Marks& a, const Marks& b) {
  return (a.encoder_exact || !b.encoder_exact) && (a.decoder_exact || !b.decoder_exact);
}

std::optional<uint64_t> resume_position(const Snapshot& snapshot, uint64_t common) {
  if (common >= snapshot.position) return snapshot.position;
  if (common + 1 == snapshot.position && common > 0) return common;
  return std::nullopt;
}

Snapshot& SnapshotStore::add(std::unique_ptr<Snapshot> snapshot, int64_t now_us) {
  CHECK(snapshot->node != nullptr && fits(snapshot->bytes()));
  Snapshot& added = *snapshot;
  bytes_ += added.bytes();
  block_references_ += added.blocks.size();
  added.used_us = now_us;
  added.where = by_use_.insert(by_use_.end(), std::move(snapshot));
  added.node->snapshots.push_back(&added);
  return added;
}

std::unique_ptr<Snapshot> SnapshotStore::remove(Snapshot& snapshot) {
  CHECK_EQ(snapshot.pins, 0u);
  bytes_ -= snapshot.bytes();
  block_references_ -= snapshot.blocks.size();
  CHECK_EQ(std::erase(snapshot.node->snapshots, &snapshot), 1u);
  std::unique_ptr<Snapshot> removed = std::move(*snapshot.where);
  by_use_.erase(removed->where);
  return removed;
}

void SnapshotStore::touch(Snapshot& snapshot, int64_t now_us) {
  snapshot.used_us = now_us;
  by_use_.splice(by_use_.end(), by_use_, snapshot.where);
}

Snapshot* SnapshotStore::oldest() const {
  for (const auto& snapshot : by_use_) {
    if (snapshot->pins == 0) return snapshot.get();
  }
  return nullptr;
}

Snapshot* SnapshotStore::expired(int64_t now_us) const {
  Snapshot* const first = oldest();
  return first != nullptr && now_us - first->used_us >= ttl_us_ ? first : nullptr;
}

Snapshot* SnapshotStore::oldest_with_blocks() const {
  for (const auto& snapshot : by_use_) {
    if (snapshot->pins == 0 && !snapshot->blocks.empty()) return snapshot.get();
  }
  return nullptr;
}

Result<void> SnapshotStore::check() const {
  uint64_t bytes = 0;
  uint64_t references = 0;
  int64_t used_us = std::numeric_limits<int64_t>::min();
  for (const auto& snapshot : by_use_) {
    bytes += snapshot->bytes();
    references += snapshot->blocks.size();
    const std::vector<Snapshot*>& at_node = snapshot->node->snapshots;
    if (std::count(at_node.begin(), at_node.end(), snapshot.get()) != 1) {
      return base::fail(ErrorCode::kInternal, "the snapshot at {} does not hang at its node once",
                        snapshot->position);
    }
    if (snapshot->remaining.end() != snapshot->position ||
        snapshot->remaining.view().begin != snapshot->node->end()) {
      return base::fail(ErrorCode::kInternal, "the snapshot at {} lacks tokens",
                        snapshot->position);
    }
    if (snapshot->used_us < used_us) {
      return base::fail(ErrorCode::kInternal, "snapshots are out of the order of their use");
    }
    used_us = snapshot->used_us;
  }
  if (bytes != bytes_ || bytes > bytes_max_ || references != block_references_) {
    return base::fail(
        ErrorCode::kInternal,
        "snapshots take {} bytes and {} blocks; {} and {} were counted, {} are allowed", bytes,
        references, bytes_, block_references_, bytes_max_);
  }
  return {};
}

}  // namespace thimble::cache
