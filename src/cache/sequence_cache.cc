#include "cache/sequence_cache.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace thimble::cache {
namespace {

constexpr std::align_val_t kAlignment{64};

static_assert(arch::kTileEntries == kernels::kTileRows, "one tile, two names");

kernels::RowFormat main_format(arch::CacheFormat format) {
  return format == arch::CacheFormat::kFloat ? kernels::RowFormat::kFloat
                                             : kernels::RowFormat::kMainFp4;
}

kernels::TileFormat index_format(arch::CacheFormat format) {
  return format == arch::CacheFormat::kFloat ? kernels::TileFormat::kFloat
                                             : kernels::TileFormat::kMxfp4;
}

kernels::RowFormat window_format(arch::CacheFormat format) {
  return format == arch::CacheFormat::kFloat ? kernels::RowFormat::kFloat
                                             : kernels::RowFormat::kWindowFp8;
}

uint64_t blocks_of(uint64_t tokens) { return base::div_ceil(tokens, arch::kBlockTokens); }

uint32_t ring_slots(const arch::Config& config) {
  return config.sliding_window + arch::kWindowSlackRows;
}

}  // namespace

void SequenceCache::FreeAligned::operator()(std::byte* bytes) const {
  ::operator delete(bytes, kAlignment);
}

SequenceCache::AlignedBytes SequenceCache::allocate_zeroed(uint64_t bytes) {
  AlignedBytes made(static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow)));
  if (made != nullptr) std::memset(made.get(), 0, bytes);
  return made;
}

Result<SequenceCache> SequenceCache::create(const arch::Config& config,
                                            const arch::CacheLayout& layout, uint64_t tokens_max) {
  SequenceCache cache;
  cache.layout_ = layout;
  cache.tokens_max_ = tokens_max;
  cache.window_bytes_ =
      uint64_t{layout.window_layers} * ring_slots(config) * layout.window_row_bytes;
  cache.windows_ = allocate_zeroed(cache.window_bytes_);
  if (cache.windows_ == nullptr) {
    return base::fail(ErrorCode::kResourceExhausted,
                      "no memory for the {} bytes of a sequence's window rings",
                      base::with_commas(cache.window_bytes_));
  }
  const uint64_t pages = blocks_of(tokens_max);
  cache.blocks_.reset(new (std::nothrow) AlignedBytes[pages]);
  cache.pages_.reset(new (std::nothrow) std::byte* [pages] {});
  if (cache.blocks_ == nullptr || cache.pages_ == nullptr) {
    return base::fail(ErrorCode::kResourceExhausted,
                      "no memory for the page table of {} tokens ({} bytes)",
                      base::with_commas(tokens_max),
                      base::with_commas(pages * (sizeof(AlignedBytes) + sizeof(std::byte*))));
  }
  cache.make_views(config);
  return cache;
}

void SequenceCache::make_views(const arch::Config& config) {
  for (const arch::OwnerLayout& owner : layout_.owners) {
    CHECK_EQ(owner.entries_per_block % kernels::kTileRows, 0u);
    rows_.main.push_back({.pages = pages_.get(),
                          .offset_bytes = owner.main_offset_bytes,
                          .rows_per_page = owner.entries_per_block,
                          .row_bytes = owner.main_row_bytes,
                          .dims = config.head_dim,
                          .format = main_format(layout_.format)});
    rows_.index.push_back({.pages = pages_.get(),
                           .offset_bytes = owner.index_offset_bytes,
                           .tiles_per_page = owner.entries_per_block / kernels::kTileRows,
                           .tile_bytes = kernels::kTileRows * owner.index_row_bytes,
                           .dims = config.index_head_dim,
                           .format = index_format(layout_.format)});
  }
  const uint64_t ring_bytes = uint64_t{ring_slots(config)} * layout_.window_row_bytes;
  for (uint32_t layer = 0; layer < layout_.window_layers; ++layer) {
    rows_.windows.push_back({.base = windows_.get() + layer * ring_bytes,
                             .slots = ring_slots(config),
                             .row_bytes = layout_.window_row_bytes,
                             .dims = config.head_dim,
                             .format = window_format(layout_.format)});
  }
}

Result<void> SequenceCache::reserve(uint64_t tokens) {
  CHECK_LE(tokens, tokens_max_);
  if (layout_.block_bytes == 0) return {};  // window layers only: nothing grows
  const uint64_t wanted = blocks_of(tokens);
  while (block_count_ < wanted) {
    AlignedBytes block = allocate_zeroed(layout_.block_bytes);
    if (block == nullptr) {
      return base::fail(ErrorCode::kResourceExhausted,
                        "no memory for a cache block of {} bytes: {} tokens need {} bytes, {} are "
                        "reserved",
                        base::with_commas(layout_.block_bytes), base::with_commas(tokens),
                        base::with_commas(wanted * layout_.block_bytes),
                        base::with_commas(reserved_bytes()));
    }
    pages_[block_count_] = block.get();
    blocks_[block_count_] = std::move(block);
    ++block_count_;
  }
  return {};
}

}  // namespace thimble::cache
