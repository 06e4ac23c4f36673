// What sequences, matches and the cache share: pool, index, snapshots, and the rule of what makes
// room for what.
//
// PagedCache owns it; sequences and matches register while they live. Engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "arch/cache_layout.h"
#include "base/result.h"
#include "cache/block_pool.h"
#include "cache/counters.h"
#include "cache/prefix_tree.h"
#include "cache/snapshot_store.h"
#include "cache/window_rings.h"

namespace thimble::cache {

class Match;
class Sequence;

struct Core {
  Core(const arch::CacheLayout& rows, const WindowGeometry& rings, BlockPool blocks,
       uint64_t snapshot_bytes, int64_t snapshot_ttl_us, std::function<int64_t()> clock)
      : layout(rows),
        windows(rings),
        pool(std::move(blocks)),
        tree(clock),
        snapshots(snapshot_bytes, snapshot_ttl_us),
        clock_us(std::move(clock)),
        holders(pool.blocks_total()) {}

  bool paged() const { return layout.block_bytes > 0; }
  uint64_t blocks_for(uint64_t tokens) const;
  // Of a block's bytes.
  uint64_t checksum(BlockId block) const;

  // Free, or evictable.
  uint64_t blocks_available() const {
    return pool.blocks_free() + tree.evictable() + snapshots.block_references();
  }
  // Sees to it that so many blocks are free. Evicts expired snapshots, then whatever was least
  // recently used among the leaves of the index and the snapshots that hold blocks; nothing that is
  // in use. kUnavailable, and nothing evicted, when all of that is not enough.
  Result<void> make_room(uint64_t blocks);
  // The same for bytes of a new snapshot: expired ones go, then the least recently used.
  Result<void> make_snapshot_room(uint64_t bytes);

  // Takes a leaf that nobody pins out of the index, with its snapshots.
  void remove_node(PrefixNode& node);
  void drop(Snapshot& snapshot);
  void drop_expired();

  // A live sequence has one page more, or less, that is `block`.
  void hold(BlockId block);
  void let_go(BlockId block);

  // Everything that must hold between two steps, counted independently. Names the first violation.
  Result<void> check_integrity() const;

  const arch::CacheLayout layout;
  const WindowGeometry windows;
  BlockPool pool;
  PrefixTree tree;
  SnapshotStore snapshots;
  const std::function<int64_t()> clock_us;
  std::set<const Sequence*> sequences;
  std::set<const Match*> matches;
  std::vector<uint32_t> holders;  // [blocks], live sequences with this page
  uint64_t blocks_live = 0;       // blocks that any holds
  CacheCounters counters;         // those since the start; the others are filled in when asked for

 private:
  Result<void> check_references() const;
  Result<void> check_holders() const;
  Result<void> check_pins() const;
  Result<void> check_nodes() const;
  Result<void> check_snapshots() const;
  Result<void> check_sequence(const Sequence& sequence) const;
  Result<void> check_pages(const Sequence& sequence) const;
};

}  // namespace thimble::cache
