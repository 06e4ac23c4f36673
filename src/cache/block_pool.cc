#include "cache/block_pool.h"

#include <cstring>
#include <limits>

#include "arch/cache_layout.h"
#include "base/bytes.h"
#include "base/check.h"

namespace thimble::cache {
Result<BlockPool> BlockPool::create(uint64_t block_bytes, uint64_t pool_bytes) {
  BlockPool pool;
  pool.block_bytes_ = block_bytes;
  pool.stride_bytes_ = base::div_ceil(block_bytes, arch::kBlockAlignment) * arch::kBlockAlignment;
  const uint64_t blocks = block_bytes == 0 ? 0 : pool_bytes / pool.stride_bytes_;
  if (blocks == 0) return pool;
  if (blocks > std::numeric_limits<uint32_t>::max()) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "a cache pool of {} bytes holds {} blocks; at most {} can be numbered",
                      base::with_commas(pool_bytes), base::with_commas(blocks),
                      base::with_commas(std::numeric_limits<uint32_t>::max()));
  }
  pool.memory_ = THIMBLE_TRY(base::HugeMemory::create(blocks * pool.stride_bytes_, "a cache pool"));
  pool.references_.resize(blocks);
  return pool;
}

std::optional<BlockId> BlockPool::take() {
  BlockId block{};
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
    std::memset(data(block), 0, block_bytes_);
  } else if (fresh_ < blocks_total()) {
    block = static_cast<BlockId>(fresh_++);
  } else {
    return std::nullopt;
  }
  CHECK_EQ(references_[index(block)], 0u);
  references_[index(block)] = 1;
  return block;
}

void BlockPool::share(BlockId block) {
  CHECK_LT(index(block), references_.size());
  CHECK(references_[index(block)] > 0);
  if (++references_[index(block)] == 2) ++shared_;
}

void BlockPool::release(BlockId block) {
  CHECK_LT(index(block), references_.size());
  CHECK(references_[index(block)] > 0);
  const uint32_t left = --references_[index(block)];
  if (left == 1) --shared_;
  if (left == 0) free_.push_back(block);
}

Result<void> BlockPool::check_references(std::span<const uint32_t> expected) const {
  CHECK_EQ(expected.size(), references_.size());
  std::vector<bool> is_free(references_.size());
  for (const BlockId block : free_) {
    if (is_free[index(block)] || index(block) >= fresh_) {
      return base::fail(ErrorCode::kInternal,
                        "block {} is in the free list twice or was never taken", index(block));
    }
    is_free[index(block)] = true;
  }
  uint64_t shared = 0;
  for (size_t i = 0; i < references_.size(); ++i) {
    if (references_[i] != expected[i]) {
      return base::fail(ErrorCode::kInternal, "block {} counts {} references, it has {}", i,
                        references_[i], expected[i]);
    }
    if ((references_[i] == 0) != (is_free[i] || i >= fresh_)) {
      return base::fail(ErrorCode::kInternal,
                        "block {} has {} references and is {}in the free list", i, references_[i],
                        is_free[i] ? "" : "not ");
    }
    shared += references_[i] > 1 ? 1 : 0;
  }
  if (shared != shared_) {
    return base::fail(ErrorCode::kInternal, "{} blocks are shared, {} were counted", shared,
                      shared_);
  }
  return {};
}

}  // namespace thimble::cache
