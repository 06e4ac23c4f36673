// Snapshots: what a sequence needs, beside its full exact blocks, to go on from a position as if it
// had never stopped.
//
// A snapshot holds the windows of all layers, the model's own state as bytes that only the model
// reads, and references to the blocks that the index does not hold: the partial one, and for a
// private sequence all after its last exact one. It hangs at the tree node where those begin, is
// found by comparing the remaining tokens, and goes when the node goes. The store bounds their
// memory: the least recently used make room at once for new ones, and what was not used for a time
// to live is dropped. It owns the snapshots and keeps PrefixNode::snapshots; the references to
// blocks are given back by who drops a snapshot. Engine thread only. Source: serving spec sections
// 9.1 and 9.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cache/block_pool.h"
#include "cache/prefix_tree.h"
#include "cache/tokens.h"

namespace thimble::cache {

// What of a sequence equals the uninterrupted run bit for bit. Encoder: the layers that feed stored
// entries; decoder: those that touch windows alone.
struct Marks {
  bool encoder_exact = true;
  bool decoder_exact = true;
  bool operator==(const Marks&) const = default;
};

// Which snapshots a request accepts.
enum class Exactness {
  kExact,         // nothing marked
  kEncoderExact,  // bounded decoder windows too
  kAny,           // private blocks of bounded encoder replay too
};

bool accepts(Exactness wanted, const Marks& marks);
// Is everything exact in `a` that is exact in `b`?
bool at_least(const Marks& a, const Marks& b);

inline constexpr uint64_t kNeverPrivate = std::numeric_limits<uint64_t>::max();

struct Snapshot {
  uint64_t position = 0;  // tokens before it
  Marks marks;
  uint64_t private_from = kNeverPrivate;  // rows of positions from here on may be approximate
  TokenLog remaining;                     // tokens from the end of `node` to `position`
  std::vector<BlockId> blocks;            // that hold those tokens, each with a reference
  std::vector<std::byte> windows;         // [layers, min(window, position), window_row_bytes]
  std::vector<std::byte> model;           // opaque
  PrefixNode* node = nullptr;

  uint32_t pins = 0;  // matches that may still open it
  int64_t used_us = 0;
  std::list<std::unique_ptr<Snapshot>>::iterator where;  // in the store

  // Host memory it takes; blocks are counted by the pool.
  uint64_t bytes() const { return windows.size() + model.size() + remaining.bytes(); }
};

class SnapshotStore {
 public:
  SnapshotStore(uint64_t bytes_max, int64_t ttl_us) : bytes_max_(bytes_max), ttl_us_(ttl_us) {}
  SnapshotStore(const SnapshotStore&) = delete;
  SnapshotStore& operator=(const SnapshotStore&) = delete;

  // Hangs a snapshot at its node. REQUIRES: fits(snapshot bytes).
  Snapshot& add(std::unique_ptr<Snapshot> snapshot, int64_t now_us);
  // Takes one out; its block references are now the caller's. REQUIRES: no pin.
  std::unique_ptr<Snapshot> remove(Snapshot& snapshot);
  // Makes it the most recently used.
  void touch(Snapshot& snapshot, int64_t now_us);

  bool fits(uint64_t bytes) const { return bytes_ + bytes <= bytes_max_; }
  // Of those without pins: the least recently used; the same, if its time to live is over; the
  // least recently used that holds blocks. Null: none.
  Snapshot* oldest() const;
  Snapshot* expired(int64_t now_us) const;
  Snapshot* oldest_with_blocks() const;

  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t count() const { return by_use_.size(); }
  // References to blocks that all snapshots hold.
  uint64_t block_references() const { return block_references_; }
  const std::list<std::unique_ptr<Snapshot>>& all() const { return by_use_; }

  // Sums counted anew, order of use, and that each hangs at its node once.
  Result<void> check() const;

 private:
  const uint64_t bytes_max_;
  const int64_t ttl_us_;
  uint64_t bytes_ = 0;
  uint64_t block_references_ = 0;
  std::list<std::unique_ptr<Snapshot>> by_use_;  // least recently used first
};

// The position that `snapshot` resumes for a prompt whose first `common` tokens it shares: its own,
// the one before (whose window it still holds: W - 1 rows are enough for the next token), or none.
std::optional<uint64_t> resume_position(const Snapshot& snapshot, uint64_t common);

}  // namespace thimble::cache
