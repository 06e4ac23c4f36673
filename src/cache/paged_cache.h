// The cache of one model: a pool of blocks, an index of what they hold, snapshots, and the live
// sequences over them.
//
// A request asks with match() what of its prompt is there, decides how much of it to adopt and
// which snapshot to resume from, and open()s a sequence. What a Match found cannot be evicted while
// the Match lives. The cache knows layout and bytes but no model: what the model needs to resume is
// an opaque string, and which layers of a window are exact is told by marks.
//
// Blocks in the index are always exact: what a private sequence computed is reachable through a
// marked snapshot alone, and only for who asks with Exactness::kAny. Not thread-safe: the engine
// thread alone calls it and everything it hands out. Sources: serving spec sections 2 to 9.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "arch/cache_layout.h"
#include "arch/config.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "cache/counters.h"
#include "cache/prefix_tree.h"
#include "cache/sequence.h"
#include "cache/snapshot_store.h"
#include "cache/tokens.h"

namespace thimble::cache {

struct PagedCacheOptions {
  uint64_t pool_bytes = 0;                                 // rounded down to whole blocks
  uint64_t snapshot_bytes = 0;                             // host memory for snapshots; 0: none
  int64_t snapshot_ttl_us = 10 * 60'000'000LL;             // since their last use
  std::function<int64_t()> clock_us = base::monotonic_us;  // never goes back
};

// A snapshot that a prompt may resume from.
struct SnapshotUse {
  uint64_t position = 0;           // tokens whose windows it restores
  uint64_t snapshot_position = 0;  // where it was taken: `position`, or one more
  Marks marks;
  Bytes model;  // as given to take_snapshot(); valid while the Match lives
};

class Match {
 public:
  ~Match();
  Match(const Match&) = delete;
  Match& operator=(const Match&) = delete;

  // Tokens of the prompt whose exact entries are there: any length up to the prompt's less one.
  uint64_t hit() const { return hit_; }
  // Furthest position first, then the most exact. A marked encoder may reach beyond hit().
  std::span<const SnapshotUse> snapshots() const { return uses_; }

 private:
  friend class PagedCache;
  friend struct Core;

  Match(Core& core, const CacheIdentity& identity, const TokenView& prompt, Exactness wanted);
  void find_snapshots(Exactness wanted);
  void consider(PrefixNode& node, Exactness wanted);
  PrefixNode& pinned() const { return partial_ != nullptr ? *partial_ : *node_; }
  BlockId source(uint64_t block, uint64_t hit, const Snapshot* snapshot) const;

  Core& core_;
  TokenLog prompt_;                // less its last token
  PrefixNode* node_ = nullptr;     // deepest full node that agrees
  PrefixNode* partial_ = nullptr;  // its child that agrees for some tokens more
  std::vector<PrefixNode*> path_;  // full nodes down to node_
  uint64_t indexed_ = 0;           // tokens found in the tree
  uint64_t hit_ = 0;
  Snapshot* extension_ = nullptr;  // whose own block reaches hit_, if the tree does not
  std::vector<SnapshotUse> uses_;
  std::vector<Snapshot*> snapshots_;  // [uses_], pinned
};

class PagedCache {
 public:
  // kResourceExhausted or kInvalidArgument name the bytes of a pool that cannot be. A model that
  // pages nothing (block_bytes 0) needs no pool.
  static Result<std::unique_ptr<PagedCache>> create(const arch::Config& config,
                                                    const arch::CacheLayout& layout,
                                                    const PagedCacheOptions& options);
  // REQUIRES: all sequences and matches are gone.
  ~PagedCache();
  PagedCache(const PagedCache&) = delete;
  PagedCache& operator=(const PagedCache&) = delete;

  // What is there of `prompt`, which begins at position 0. Counts as a use of all it finds.
  std::unique_ptr<Match> match(const CacheIdentity& identity, const TokenView& prompt,
                               Exactness wanted);

  struct Opening {
    uint64_t hit = 0;                       // tokens to adopt, at most match.hit()
    const SnapshotUse* snapshot = nullptr;  // one of match.snapshots() at most `hit`, or none
    uint64_t tokens_max = 0;                // the sequence will never be longer
  };
  // A sequence that begins with the first `hit` tokens of the prompt and, given a snapshot, with
  // its windows: replay from there to `hit` is the caller's. With a snapshot whose encoder is
  // marked, `hit` is its position exactly, and the sequence is private. Errors as
  // Sequence::reserve(); nothing has changed then.
  Result<std::unique_ptr<Sequence>> open(const Match& match, const Opening& opening);
  // One that begins with nothing.
  Result<std::unique_ptr<Sequence>> open_empty(const CacheIdentity& identity, uint64_t tokens_max);

  // Drops snapshots whose time is over. They are also dropped whenever room is made.
  void drop_expired();

  const arch::CacheLayout& layout() const;
  CacheCounters counters() const;
  // Blocks that are free, or that nobody uses: what Sequence::reserve() could have.
  uint64_t blocks_available() const;

  // Counts everything anew and names the first thing that does not hold: references, free list,
  // order of the tree, pins, bytes of published blocks, rows beyond a sequence's end, snapshots.
  // For between two steps: what a step wrote is committed or discarded.
  Result<void> check_integrity() const;

 private:
  explicit PagedCache(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace thimble::cache
