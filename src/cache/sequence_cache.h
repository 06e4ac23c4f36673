// Cached rows of one sequence in blocks of its own: grows block by block, shares nothing yet.
//
// Owns the bytes behind the views of kernels/paged_rows.h; layout and byte counts come from
// arch/cache_layout.h. Blocks and rings start as zeros, so a row that was never written reads as
// zero and never as what another sequence left behind. The array of page addresses is allocated
// once, for the longest the sequence may become: a view points at that array, so growing or moving
// the cache leaves every view valid. Not thread-safe: only the engine thread calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "arch/cache_layout.h"
#include "arch/config.h"
#include "base/result.h"
#include "kernels/paged_rows.h"

namespace thimble::cache {

class SequenceCache {
 public:
  // An empty sequence that may grow to `tokens_max` tokens. Allocates the window rings, with
  // kWindowSlackRows slots beyond the window, and no block. kResourceExhausted when memory is out.
  static Result<SequenceCache> create(const arch::Config& config, const arch::CacheLayout& layout,
                                      uint64_t tokens_max);

  // Room for `tokens` tokens in all. kResourceExhausted names the bytes when memory is out; what
  // was there stays. REQUIRES: tokens <= tokens_max.
  Result<void> reserve(uint64_t tokens);

  // Views of everything cached. The reference is good until the object moves or goes, the views it
  // holds (copies of them too) until the bytes go.
  const kernels::SequenceRows& rows() const { return rows_; }

  uint64_t tokens_max() const { return tokens_max_; }
  // Blocks reserved, counted as they were allocated: ceil(tokens / 128) of them.
  uint64_t reserved_bytes() const { return layout_.block_bytes * block_count_; }
  // All rings, slack included.
  uint64_t window_bytes() const { return window_bytes_; }

 private:
  struct FreeAligned {
    void operator()(std::byte* bytes) const;
  };
  using AlignedBytes = std::unique_ptr<std::byte[], FreeAligned>;
  static AlignedBytes allocate_zeroed(uint64_t bytes);  // null when memory is out

  SequenceCache() = default;
  void make_views(const arch::Config& config);

  arch::CacheLayout layout_;
  uint64_t tokens_max_ = 0;
  uint64_t window_bytes_ = 0;
  uint64_t block_count_ = 0;
  std::unique_ptr<AlignedBytes[]> blocks_;  // [blocks for tokens_max], null from block_count_ on
  std::unique_ptr<std::byte*[]> pages_;     // the same addresses, as the views want them
  AlignedBytes windows_;                    // [layers, slots, window_row_bytes]
  kernels::SequenceRows rows_;
};

}  // namespace thimble::cache
