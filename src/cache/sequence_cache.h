// Cached rows of one sequence in blocks of its own: grows block by block, shares nothing yet.
//
// Owns the bytes behind the views of kernels/paged_rows.h; layout and byte counts come from
// arch/cache_layout.h. Not thread-safe: only the engine thread calls it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/cache_layout.h"
#include "base/result.h"
#include "kernels/paged_rows.h"

namespace thimble::cache {

class SequenceCache {
 public:
  SequenceCache(const arch::Config& config, const arch::CacheLayout& layout);

  // Room for `tokens` tokens in all. kResourceExhausted names the bytes when memory is out; what was
  // there stays. Views handed out earlier stay valid.
  Result<void> reserve(uint64_t tokens);

  // Views of everything cached; valid until the object goes.
  const kernels::SequenceRows& rows() const { return rows_; }

  uint64_t reserved_bytes() const { return layout_.block_bytes * blocks_.size(); }

 private:
  arch::CacheLayout layout_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<std::byte*> pages_;  // [blocks], what the views point at; capacity set by reserve()
  std::unique_ptr<std::byte[]> windows_;
  kernels::SequenceRows rows_;
};

}  // namespace thimble::cache
