#include "cache/block_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "arch/cache_layout.h"
#include "base/bytes.h"
#include "base/check.h"

namespace thimble::cache {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return base::div_ceil(bytes, unit) * unit; }

}  // namespace

Result<BlockPool> BlockPool::create(uint64_t block_bytes, uint64_t pool_bytes) {
  BlockPool pool;
  pool.block_bytes_ = block_bytes;
  pool.stride_bytes_ = round_up(block_bytes, arch::kBlockAlignment);
  const uint64_t blocks = block_bytes == 0 ? 0 : pool_bytes / pool.stride_bytes_;
  if (blocks == 0) return pool;
  if (blocks > std::numeric_limits<uint32_t>::max()) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "a cache pool of {} bytes holds {} blocks; at most {} can be numbered",
                      base::with_commas(pool_bytes), base::with_commas(blocks),
                      base::with_commas(std::numeric_limits<uint32_t>::max()));
  }
  pool.mapping_bytes_ = blocks * pool.stride_bytes_ + kHugePage;
  void* const mapped = ::mmap(nullptr, pool.mapping_bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return base::fail(ErrorCode::kResourceExhausted, "no memory for a cache pool of {} bytes: {}",
                      base::with_commas(pool.mapping_bytes_), std::strerror(errno));
  }
  pool.mapping_ = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  pool.base_ = pool.mapping_ + (round_up(address, kHugePage) - address);
  // Advice: a kernel without huge pages refuses, and everything works all the same.
  if (blocks * pool.stride_bytes_ >= kHugePage) {
    ::madvise(pool.base_, blocks * pool.stride_bytes_, MADV_HUGEPAGE);
  }
  pool.references_.resize(blocks);
  return pool;
}

BlockPool::BlockPool(BlockPool&& other) noexcept
    : block_bytes_(other.block_bytes_),
      stride_bytes_(other.stride_bytes_),
      base_(std::exchange(other.base_, nullptr)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)),
      references_(std::move(other.references_)),
      free_(std::move(other.free_)),
      fresh_(other.fresh_),
      shared_(other.shared_) {}

BlockPool::~BlockPool() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
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
