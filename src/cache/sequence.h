// One live sequence: its page table, committed tokens and window rings.
//
// Tokens become part of a sequence in steps. reserve() makes room; the model writes entries and
// window rows through rows(), beyond the committed length; commit() says which tokens those were.
// What a failed or rejected step wrote is erased by discard_uncommitted() and was never seen by
// anyone. Every block that fills is published in the prefix index, unless rows in it may be
// approximate; a shared block is never written again, whoever needs to change it gets a copy.
//
// Dropping the object ends the sequence, finished or not: its full blocks stay in the index, its
// partial block is donated as a tail, private blocks are freed. It pins its path in the index while
// it lives. Made by PagedCache, which must outlive it. Engine thread only.
// Sources: serving spec sections 2, 8.2 and 9.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cache/block_pool.h"
#include "cache/prefix_tree.h"
#include "cache/snapshot_store.h"
#include "cache/tokens.h"
#include "cache/window_rings.h"
#include "kernels/paged_rows.h"

namespace thimble::cache {

class PagedCache;
struct Core;

// Entries that the tokens [from, to) complete, of each owner: [owners].
std::vector<uint64_t> entries_completed(const arch::CacheLayout& layout, uint64_t from,
                                        uint64_t to);

class Sequence {
 public:
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // Views of everything cached. They stay valid, and see what changes, as long as the sequence.
  const kernels::SequenceRows& rows() const { return rows_; }

  uint64_t length() const { return tokens_.end(); }  // committed tokens
  TokenView tokens() const { return tokens_.view(); }
  uint64_t hit() const { return hit_; }  // of which were adopted when it was opened
  uint64_t tokens_max() const { return tokens_max_; }

  // Room for `tokens` tokens in all, of which the next step may write any. Reserve step by step:
  // what lies between length() and here counts as overwritten when a step fails. What others left
  // behind is evicted as needed. On error nothing was reserved: kUnavailable when live sequences
  // are in the way, so that waiting helps; kResourceExhausted names the bytes when it can never
  // fit. REQUIRES: tokens <= tokens_max().
  Result<void> reserve(uint64_t tokens);
  // Gives back what was reserved beyond length(). REQUIRES: nothing was written there.
  void unreserve();
  // Blocks that reserve(tokens) would take.
  uint64_t blocks_missing(uint64_t tokens) const;

  // Appends the tokens that the model has just run. `entries_written`: what it stored, [owners],
  // which must be the entries that these tokens complete. REQUIRES: room was reserved.
  void commit(std::span<const int32_t> ids, std::span<const uint64_t> entries_written,
              std::span<const ContentMark> marks = {});

  // Erases all that was written beyond length(), and gives back what was reserved there.
  void discard_uncommitted();

  // Shortens to `tokens`; nothing of the rest remains in this sequence (published blocks stay in
  // the index). A shared block that becomes partial is replaced by a copy, which may need a block:
  // on kUnavailable the sequence is cut at the end of that block instead, and the call can be
  // repeated. REQUIRES: tokens <= length().
  Result<void> rewind(uint64_t tokens);

  // A second sequence with the same tokens: shares full blocks, copies partial block and rings.
  // Uncommitted rows are left out. Errors as reserve().
  Result<std::unique_ptr<Sequence>> fork();

  // Windows. Rows of [window_begin(), window_end()) are there, exact or not; the next token may run
  // when windows_complete(). After a hit the engine replays what lacks and tells so.
  uint64_t window_begin() const { return rings_.begin(); }
  uint64_t window_end() const { return rings_.end(); }
  bool windows_complete() const { return rings_.complete(length()); }
  // Replay wrote window rows of [from, to) and no entry; rows from `to` on are forgotten until they
  // are written again, so it may come in pieces. REQUIRES: to <= length().
  void replayed(uint64_t from, uint64_t to);
  // Drops all window rows: after a rewind that lost some of them, before they are replayed.
  void forget_windows() { rings_.erase(0, touched_); }

  // From now on what is computed here is approximate: no block with a position from length() on is
  // ever published, and snapshots carry the mark. For good.
  void mark_private();
  // Decoder windows are approximate, or exact again. Entries do not depend on them.
  void mark_decoder_bounded() { decoder_exact_ = false; }
  void mark_decoder_exact() { decoder_exact_ = true; }
  Marks marks() const { return {private_from_ == kNeverPrivate, decoder_exact_}; }
  // First position whose entries may be approximate.
  uint64_t private_from() const { return private_from_; }

  // Keeps a snapshot at length(), with what the model needs to resume there or one token before;
  // nothing may be uncommitted. One that is there already, as exact or more, is kept and counts as
  // used. kInvalidArgument when the windows are incomplete or the snapshot is larger than the
  // budget; kUnavailable when all that could make room is in use.
  Result<void> take_snapshot(Bytes model);

  // Global rows the sequence's tokens occupy, counted as entries were written or adopted:
  // (3*floor(N/2) + N) * 356 bytes for N tokens of the released model.
  uint64_t rows_bytes() const;
  uint64_t reserved_bytes() const;  // whole blocks
  uint64_t window_bytes() const { return rings_.bytes(); }

 private:
  friend class PagedCache;
  friend struct Core;

  // Empty, but pins the path to `node`, whose blocks are then to be adopted.
  static Result<std::unique_ptr<Sequence>> create(Core& core, PrefixNode& node,
                                                  uint64_t tokens_max);
  Sequence(Core& core, PrefixNode& node, uint64_t tokens_max, WindowRings rings,
           std::unique_ptr<std::byte*[]> pages);
  void make_views();

  // The page table. Each page holds a reference; push and replace take over the caller's.
  void push_block(BlockId block);
  void pop_block();
  void replace_block(uint64_t page, BlockId block);

  // How a sequence begins that is not empty: pages first (shared, or the first `tokens` tokens of
  // one copied), then tokens, then windows.
  void adopt(BlockId block);
  Result<void> adopt_copy(BlockId block, uint64_t tokens);
  void begin_with(const TokenView& tokens);
  void resume(const Snapshot& snapshot, uint64_t position);

  // The first indexed_blocks() pages are those of the path to node_.
  uint64_t indexed_blocks() const;
  void shorten_path(uint64_t blocks);
  void publish_full_blocks();
  void publish_block();
  void drop_covered_tails(const TokenView& tokens);
  void donate_tail();

  void truncate_to(uint64_t tokens);
  Result<void> unshare(uint64_t page, uint64_t tokens);
  bool take_over_last_page();
  Result<std::unique_ptr<Snapshot>> make_snapshot(Bytes model);

  Core& core_;
  PrefixNode* node_;  // deepest on its path: the root or a full block
  const uint64_t tokens_max_;
  TokenLog tokens_;
  uint64_t hit_ = 0;
  uint64_t touched_ = 0;  // rows before this position may have been written
  uint64_t private_from_ = kNeverPrivate;
  bool decoder_exact_ = true;
  std::vector<uint64_t> entries_;        // [owners], held
  std::vector<BlockId> blocks_;          // page table, a reference each
  std::unique_ptr<std::byte*[]> pages_;  // [blocks for tokens_max], their addresses for the views
  WindowRings rings_;
  kernels::SequenceRows rows_;
};

}  // namespace thimble::cache
