// A fixed number of equal cache blocks: hands them out, counts who refers to them, takes them back.
//
// Owns the bytes of all blocks in one piece, touched by nobody until a block is taken: blocks that
// were never used cost address space only. A block's bytes start as zeros whenever it is taken, so
// nothing of an earlier user shows. The number of references says who may write: only the holder of
// a sole one. Not thread-safe: the engine thread alone calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/huge_memory.h"

namespace thimble::cache {

enum class BlockId : uint32_t {};

class BlockPool {
 public:
  // `pool_bytes` is rounded down to whole blocks. block_bytes 0 (a model that pages nothing) makes
  // an empty pool. kResourceExhausted names the bytes when the mapping is refused.
  static Result<BlockPool> create(uint64_t block_bytes, uint64_t pool_bytes);

  BlockPool(BlockPool&& other) noexcept = default;
  BlockPool& operator=(BlockPool&&) = delete;

  // A block of zeros with one reference; nothing when all are in use.
  std::optional<BlockId> take();
  // One reference more. REQUIRES: `block` is in use.
  void share(BlockId block);
  // One reference less; the last one frees the block. REQUIRES: `block` is in use.
  void release(BlockId block);

  std::byte* data(BlockId block) const { return memory_.data() + stride_bytes_ * index(block); }
  uint32_t references(BlockId block) const { return references_[index(block)]; }

  uint64_t block_bytes() const { return block_bytes_; }
  // From one block to the next: block_bytes, rounded up to 64 where a geometry needs it. This is
  // what a block costs.
  uint64_t stride_bytes() const { return stride_bytes_; }
  uint64_t blocks_total() const { return references_.size(); }
  uint64_t blocks_free() const { return free_.size() + (blocks_total() - fresh_); }
  uint64_t blocks_used() const { return blocks_total() - blocks_free(); }
  // Blocks with more than one reference.
  uint64_t blocks_shared() const { return shared_; }
  uint64_t used_bytes() const { return blocks_used() * stride_bytes_; }

  // Compares with references that the caller counted on its own, and the free list with both.
  // expected: [blocks_total].
  Result<void> check_references(std::span<const uint32_t> expected) const;

 private:
  BlockPool() = default;
  static size_t index(BlockId block) { return static_cast<size_t>(block); }

  uint64_t block_bytes_ = 0;
  uint64_t stride_bytes_ = 0;
  base::HugeMemory memory_;
  std::vector<uint32_t> references_;  // [blocks], 0: free
  std::vector<BlockId> free_;         // used before, so not zeros; the last freed goes first
  uint64_t fresh_ = 0;                // blocks from here on were never taken
  uint64_t shared_ = 0;
};

}  // namespace thimble::cache
