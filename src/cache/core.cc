#include "cache/internal/core.h"

#include <xxhash.h>

#include "base/bytes.h"
#include "base/check.h"

namespace thimble::cache {

uint64_t Core::blocks_for(uint64_t tokens) const {
  return paged() ? base::div_ceil(tokens, arch::kBlockTokens) : 0;
}

uint64_t Core::checksum(BlockId block) const {
  return XXH3_64bits(pool.data(block), pool.block_bytes());
}

Result<void> Core::make_room(uint64_t blocks) {
  if (pool.blocks_free() >= blocks) return {};
  drop_expired();
  const uint64_t reachable = blocks_available();
  while (pool.blocks_free() < blocks && reachable >= blocks) {
    PrefixNode* const leaf = tree.oldest();
    Snapshot* const snapshot = snapshots.oldest_with_blocks();
    if (leaf == nullptr && snapshot == nullptr) break;
    if (leaf == nullptr || (snapshot != nullptr && snapshot->used_us < leaf->used_us)) {
      drop(*snapshot);
      ++counters.snapshots_recycled;
    } else {
      remove_node(*leaf);
      ++counters.blocks_evicted;
    }
  }
  if (pool.blocks_free() >= blocks) return {};
  return base::fail(ErrorCode::kUnavailable,
                    "{} cache blocks are needed ({} bytes); {} of {} are free and {} sequences use "
                    "the others",
                    base::with_commas(blocks), base::with_commas(blocks * pool.stride_bytes()),
                    base::with_commas(pool.blocks_free()), base::with_commas(pool.blocks_total()),
                    base::with_commas(sequences.size()));
}

Result<void> Core::make_snapshot_room(uint64_t bytes) {
  if (bytes > snapshots.bytes_max()) {
    return base::fail(ErrorCode::kResourceExhausted,
                      "a snapshot takes {} bytes, all snapshots together may take {}",
                      base::with_commas(bytes), base::with_commas(snapshots.bytes_max()));
  }
  drop_expired();
  while (!snapshots.fits(bytes)) {
    Snapshot* const oldest = snapshots.oldest();
    if (oldest == nullptr) {
      return base::fail(ErrorCode::kUnavailable, "all {} snapshots ({} of {} bytes) are in use",
                        snapshots.count(), base::with_commas(snapshots.bytes()),
                        base::with_commas(snapshots.bytes_max()));
    }
    drop(*oldest);
    ++counters.snapshots_recycled;
  }
  return {};
}

void Core::hold(BlockId block) {
  if (++holders[static_cast<size_t>(block)] == 1) ++blocks_live;
}

void Core::let_go(BlockId block) {
  CHECK(holders[static_cast<size_t>(block)] > 0);
  if (--holders[static_cast<size_t>(block)] == 0) --blocks_live;
}

void Core::remove_node(PrefixNode& node) {
  while (!node.snapshots.empty()) {
    drop(*node.snapshots.back());
    ++counters.snapshots_recycled;
  }
  pool.release(tree.remove(node));
}

void Core::drop(Snapshot& snapshot) {
  const std::unique_ptr<Snapshot> removed = snapshots.remove(snapshot);
  for (const BlockId block : removed->blocks) pool.release(block);
  tree.remove_if_idle(*removed->node);
}

void Core::drop_expired() {
  const int64_t now_us = clock_us();
  while (Snapshot* const snapshot = snapshots.expired(now_us)) {
    drop(*snapshot);
    ++counters.snapshots_expired;
  }
}

}  // namespace thimble::cache
