// The index of what the cache knows: a tree of immutable blocks, found by comparing their tokens.
//
// A path from a root spells a text; each node on it is a block of kBlockTokens tokens with all its
// entries, computed exactly. The last, partial block of a text hangs in the tree as a tail: a leaf
// with fewer tokens. Full nodes and tails of one parent lie in one ordered set, so that the child
// that agrees longest with a text is a neighbour of where the text would be; no hash decides what
// is shared. A root stands for an identity, and identities are compared by value: nothing crosses
// between tenants, models or formats.
//
// Pins: who uses a node pins the whole path to it. What nobody pins is in one list, least recently
// used first; a path is given back from its deepest node up, so the head of the list is always a
// leaf and, of one text, the tail goes first. The tree names blocks and does not own their bytes:
// each node stands for one reference that PagedCache keeps in the pool. Engine thread only.
// Sources: serving spec sections 4 and 9.4.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "arch/cache_layout.h"
#include "base/clock.h"
#include "base/result.h"
#include "cache/block_pool.h"
#include "cache/tokens.h"

namespace thimble::cache {

// Everything beside the tokens that cached bytes depend on, and the tenant they belong to.
struct CacheIdentity {
  std::string salt;                   // tenant; texts of different salts never meet
  std::array<std::byte, 16> model{};  // fingerprint of the weights
  arch::CacheFormat format = arch::CacheFormat::kPacked;
  uint32_t numerics_version = 0;  // of the rounding rules that made the bytes
  auto operator<=>(const CacheIdentity&) const = default;
};

struct PrefixNode;
struct Snapshot;

struct ByTokens {
  using is_transparent = void;
  using Owned = std::unique_ptr<PrefixNode>;
  bool operator()(const Owned& a, const Owned& b) const;
  bool operator()(const Owned& a, const TokenView& b) const;
  bool operator()(const TokenView& a, const Owned& b) const;
};

// Only the tree changes a node, but for `snapshots`, which SnapshotStore keeps.
struct PrefixNode {
  PrefixNode* parent = nullptr;             // null: a root, which has no tokens and no block
  const CacheIdentity* identity = nullptr;  // of a root
  TokenLog tokens;                          // kBlockTokens of them; fewer: a tail
  BlockId block{};
  uint64_t checksum = 0;  // of the block's bytes when it was published
  uint32_t pins = 0;      // users whose path goes through here
  int64_t used_us = 0;    // when the last of them went
  std::set<std::unique_ptr<PrefixNode>, ByTokens> children;
  std::vector<Snapshot*> snapshots;  // attached here; they go when the node goes
  PrefixNode* older = nullptr;       // neighbours in the list of what nobody pins
  PrefixNode* newer = nullptr;

  bool is_root() const { return parent == nullptr; }
  bool is_full() const { return tokens.view().size() == arch::kBlockTokens; }
  // Tokens from the start of the text to the end of this node.
  uint64_t end() const { return tokens.end(); }
};

class PrefixTree {
 public:
  struct Found {
    PrefixNode* node = nullptr;     // deepest full node that agrees entirely; null: no such root
    PrefixNode* partial = nullptr;  // its child that agrees for some tokens more, if one does
    uint64_t tokens = 0;            // that agree in all
  };

  // The clock tells when a node was last used, which is compared with snapshots' times.
  explicit PrefixTree(std::function<int64_t()> clock_us = base::monotonic_us)
      : clock_us_(std::move(clock_us)) {}
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  // The longest beginning of `tokens` (from position 0) that the tree holds, of any length.
  Found find(const CacheIdentity& identity, const TokenView& tokens) const;

  // The root of an identity, made where there is none. It stays while something pins it or hangs
  // below it.
  PrefixNode& root(const CacheIdentity& identity);

  // The full child with exactly these tokens, or null.
  PrefixNode* child(const PrefixNode& parent, const TokenView& tokens) const;

  // Hangs a block under `parent`, as the most recently used. REQUIRES: 1..kBlockTokens tokens from
  // parent.end() on, of which no child is an equal.
  PrefixNode& add(PrefixNode& parent, const TokenView& tokens, BlockId block, uint64_t checksum);

  // Does a child of `parent` begin with these tokens, so that a tail of them would add nothing?
  bool covers(const PrefixNode& parent, const TokenView& tokens) const;
  // A tail of `parent` that is a proper beginning of `tokens` and that nobody pins, or null.
  PrefixNode* covered_tail(const PrefixNode& parent, const TokenView& tokens) const;

  // Pins `node` and all above it.
  void pin_path(PrefixNode& node);
  // Pins `node` alone. REQUIRES: its parent is pinned by the same user.
  void pin(PrefixNode& node);
  // Takes back the pins from `node` up to, but not including, `stop` (null: all of the path).
  void unpin_path(PrefixNode& node, const PrefixNode* stop = nullptr);

  // What is to be evicted first: the least recently used leaf; null when everything is pinned.
  PrefixNode* oldest() const { return oldest_; }
  // Takes a leaf out; its block is now the caller's. REQUIRES: no root, no child, no pin, no
  // snapshot. An ancestor root that this empties goes too.
  BlockId remove(PrefixNode& node);
  // Takes out a root with no child, pin or snapshot; anything else stays.
  void remove_if_idle(PrefixNode& root);

  uint64_t nodes() const { return nodes_; }          // roots not counted
  uint64_t evictable() const { return evictable_; }  // nodes that nobody pins
  std::vector<const PrefixNode*> all_nodes() const;  // roots included, parents first
  // Order and shape: children sorted and unequal, parents right, list of the unpinned whole, with
  // every child before its parent.
  Result<void> check_shape() const;

 private:
  void push_newest(PrefixNode& node);
  void unlink(PrefixNode& node);
  Result<void> check_list(const std::vector<const PrefixNode*>& nodes) const;

  std::function<int64_t()> clock_us_;
  std::map<CacheIdentity, std::unique_ptr<PrefixNode>> roots_;
  PrefixNode* oldest_ = nullptr;
  PrefixNode* newest_ = nullptr;
  uint64_t nodes_ = 0;
  uint64_t evictable_ = 0;
};

// The full nodes from the first block to `node`, in order of position.
std::vector<PrefixNode*> path_to(PrefixNode& node);

}  // namespace thimble::cache
