#include "kernels/workspace.h"

#include <algorithm>

#include "base/check.h"

namespace thimble::kernels {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kBlockBytesMin = uint64_t{1} << 20;

uint64_t align(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void* Workspace::take_bytes(uint64_t bytes) {
  bytes = align(bytes);
  const bool empty = current_ == 0 && (blocks_.empty() || blocks_[0].used == 0);
  if (empty && blocks_.size() > 1) merge();
  while (current_ < blocks_.size() && blocks_[current_].bytes - blocks_[current_].used < bytes) {
    ++current_;
  }
  if (current_ == blocks_.size()) grow(bytes);
  Block& block = blocks_[current_];
  void* result = block.base + block.used;
  block.used += bytes;
  return result;
}

void Workspace::grow(uint64_t bytes) {
  Block block;
  block.bytes = std::max({bytes, kBlockBytesMin, align(capacity_bytes())});
  block.storage.reset(new std::byte[block.bytes + kAlignment]);
  const uint64_t address = reinterpret_cast<uintptr_t>(block.storage.get());
  block.base = block.storage.get() + (align(address) - address);
  blocks_.push_back(std::move(block));
}

void Workspace::merge() {
  const uint64_t bytes = capacity_bytes();
  blocks_.clear();
  grow(bytes);
}

uint64_t Workspace::capacity_bytes() const {
  uint64_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.bytes;
  return bytes;
}

Workspace::Mark::Mark(Workspace& workspace)
    : workspace_(workspace),
      block_(workspace.current_),
      used_(workspace.blocks_.empty() ? 0 : workspace.blocks_[workspace.current_].used) {}

Workspace::Mark::~Mark() {
  CHECK_GE(workspace_.current_, block_);
  for (size_t i = block_; i < workspace_.blocks_.size(); ++i) workspace_.blocks_[i].used = 0;
  if (!workspace_.blocks_.empty()) workspace_.blocks_[block_].used = used_;
  workspace_.current_ = block_;
}

}  // namespace thimble::kernels
