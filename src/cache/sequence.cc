#include "cache/sequence.h"

#include <algorithm>
#include <new>
#include <utility>

#include "arch/layer_plan.h"
#include "base/check.h"
#include "cache/internal/block_rows.h"
#include "cache/internal/core.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;

kernels::RowFormat main_format(arch::CacheFormat format) {
  return format == arch::CacheFormat::kFloat ? kernels::RowFormat::kFloat
                                             : kernels::RowFormat::kMainFp4;
}

kernels::TileFormat index_format(arch::CacheFormat format) {
  return format == arch::CacheFormat::kFloat ? kernels::TileFormat::kFloat
                                             : kernels::TileFormat::kMxfp4;
}

uint32_t index_dims(arch::CacheFormat format, const arch::OwnerLayout& owner) {
  return format == arch::CacheFormat::kFloat
             ? owner.index_row_bytes / static_cast<uint32_t>(sizeof(float))
             : 2 * (owner.index_row_bytes - owner.index_scale_bytes);
}

}  // namespace

std::vector<uint64_t> entries_completed(const arch::CacheLayout& layout, uint64_t from,
                                        uint64_t to) {
  std::vector<uint64_t> entries;
  for (const arch::OwnerLayout& owner : layout.owners) {
    entries.push_back(arch::entries_after(to, owner.ratio) -
                      arch::entries_after(from, owner.ratio));
  }
  return entries;
}

Result<std::unique_ptr<Sequence>> Sequence::create(Core& core, PrefixNode& node,
                                                   uint64_t tokens_max) {
  WindowRings rings = THIMBLE_TRY(WindowRings::create(core.windows));
  const uint64_t pages_max = core.blocks_for(tokens_max);
  std::unique_ptr<std::byte*[]> pages;
  pages.reset(new (std::nothrow) std::byte* [pages_max] {});
  if (pages == nullptr) {
    return base::fail(
        ErrorCode::kResourceExhausted, "no memory for the page table of {} tokens ({} bytes)",
        base::with_commas(tokens_max), base::with_commas(pages_max * sizeof(std::byte*)));
  }
  std::unique_ptr<Sequence> made;
  made.reset(new Sequence(core, node, tokens_max, std::move(rings), std::move(pages)));
  return made;
}

Sequence::Sequence(Core& core, PrefixNode& node, uint64_t tokens_max, WindowRings rings,
                   std::unique_ptr<std::byte*[]> pages)
    : core_(core),
      node_(&node),
      tokens_max_(tokens_max),
      entries_(core.layout.owners.size()),
      pages_(std::move(pages)),
      rings_(std::move(rings)) {
  core_.tree.pin_path(node);
  core_.sequences.insert(this);
  make_views();
}

Sequence::~Sequence() {
  discard_uncommitted();
  donate_tail();
  core_.sequences.erase(this);
  while (!blocks_.empty()) pop_block();
  core_.tree.unpin_path(*node_);
}

void Sequence::make_views() {
  const arch::CacheLayout& layout = core_.layout;
  for (const arch::OwnerLayout& owner : layout.owners) {
    CHECK_EQ(owner.entries_per_block % kernels::kTileRows, 0u);
    rows_.main.push_back({.pages = pages_.get(),
                          .offset_bytes = owner.main_offset_bytes,
                          .rows_per_page = owner.entries_per_block,
                          .row_bytes = owner.main_row_bytes,
                          .dims = core_.windows.dims,
                          .format = main_format(layout.format)});
    rows_.index.push_back({.pages = pages_.get(),
                           .offset_bytes = owner.index_offset_bytes,
                           .tiles_per_page = owner.entries_per_block / kernels::kTileRows,
                           .tile_bytes = kernels::kTileRows * owner.index_row_bytes,
                           .dims = index_dims(layout.format, owner),
                           .format = index_format(layout.format)});
  }
  rows_.windows = rings_.views();
}

void Sequence::push_block(BlockId block) {
  pages_[blocks_.size()] = core_.pool.data(block);
  blocks_.push_back(block);
  core_.hold(block);
}

void Sequence::pop_block() {
  core_.let_go(blocks_.back());
  core_.pool.release(blocks_.back());
  blocks_.pop_back();
  pages_[blocks_.size()] = nullptr;
}

void Sequence::replace_block(uint64_t page, BlockId block) {
  core_.let_go(blocks_[page]);
  core_.pool.release(blocks_[page]);
  blocks_[page] = block;
  core_.hold(block);
  pages_[page] = core_.pool.data(block);
}

void Sequence::adopt(BlockId block) {
  core_.pool.share(block);
  push_block(block);
}

Result<void> Sequence::adopt_copy(BlockId block, uint64_t tokens) {
  THIMBLE_TRY(core_.make_room(1));
  const BlockId own = *core_.pool.take();
  copy_entries(core_.layout, core_.pool.data(block), tokens, core_.pool.data(own));
  push_block(own);
  return {};
}

void Sequence::begin_with(const TokenView& tokens) {
  CHECK_EQ(length(), 0u);
  tokens_.append(tokens);
  entries_ = entries_completed(core_.layout, 0, length());
  hit_ = length();
  touched_ = length();
  rings_.begin_at(length());
}

void Sequence::resume(const Snapshot& snapshot, uint64_t position) {
  rings_.unpack(snapshot.windows, snapshot.position, position);
  decoder_exact_ = snapshot.marks.decoder_exact;
  if (snapshot.private_from != kNeverPrivate) {
    private_from_ = std::min(snapshot.private_from, length());
  }
}

Result<void> Sequence::reserve(uint64_t tokens) {
  CHECK_LE(tokens, tokens_max_);
  const uint64_t wanted = core_.blocks_for(tokens);
  const BlockPool& pool = core_.pool;
  if (wanted > pool.blocks_total()) {
    return base::fail(ErrorCode::kResourceExhausted,
                      "{} tokens take {} bytes of cache ({} blocks); the pool has {} bytes ({} "
                      "blocks) in all",
                      base::with_commas(tokens), base::with_commas(wanted * pool.stride_bytes()),
                      base::with_commas(wanted),
                      base::with_commas(pool.blocks_total() * pool.stride_bytes()),
                      base::with_commas(pool.blocks_total()));
  }
  if (wanted > blocks_.size()) THIMBLE_TRY(core_.make_room(wanted - blocks_.size()));
  while (blocks_.size() < wanted) push_block(*core_.pool.take());
  touched_ = std::max(touched_, tokens);
  return {};
}

void Sequence::unreserve() {
  while (blocks_.size() > core_.blocks_for(length())) pop_block();
  touched_ = length();
}

uint64_t Sequence::blocks_missing(uint64_t tokens) const {
  const uint64_t wanted = core_.blocks_for(tokens);
  return wanted > blocks_.size() ? wanted - blocks_.size() : 0;
}

void Sequence::commit(std::span<const int32_t> ids, std::span<const uint64_t> entries_written,
                      std::span<const ContentMark> marks) {
  const uint64_t from = length();
  const uint64_t to = from + ids.size();
  CHECK_LE(to, touched_);
  const std::vector<uint64_t> completed = entries_completed(core_.layout, from, to);
  CHECK_EQ(entries_written.size(), completed.size());
  for (size_t o = 0; o < completed.size(); ++o) {
    CHECK_EQ(entries_written[o], completed[o]);
    const arch::OwnerLayout& owner = core_.layout.owners[o];
    entries_[o] += entries_written[o];
    core_.counters.rows_written_bytes +=
        entries_written[o] * (uint64_t{owner.main_row_bytes} + owner.index_row_bytes);
  }
  tokens_.append({ids, marks, from});
  rings_.written(from, to);
  publish_full_blocks();
}

void Sequence::discard_uncommitted() {
  if (touched_ > length()) truncate_to(length());
}

Result<void> Sequence::rewind(uint64_t tokens) {
  CHECK_LE(tokens, length());
  discard_uncommitted();
  if (tokens == length()) return {};
  if (tokens % kBlockTokens != 0 && core_.paged()) {
    const uint64_t page = tokens / kBlockTokens;
    if (core_.pool.references(blocks_[page]) > 1) THIMBLE_TRY(unshare(page, tokens));
  }
  truncate_to(tokens);
  return {};
}

// Page `page` becomes a copy of its own with only the entries of `tokens` tokens.
Result<void> Sequence::unshare(uint64_t page, uint64_t tokens) {
  if (!core_.make_room(1)) {
    truncate_to(std::min(length(), (page + 1) * kBlockTokens));
    auto room = core_.make_room(1);
    if (!room) {
      if (take_over_last_page()) return {};
      if (core_.pool.references(blocks_[page]) > 1) return room;
    }
  }
  if (core_.pool.references(blocks_[page]) == 1) return {};  // room was made by its other holder
  const BlockId own = *core_.pool.take();
  copy_entries(core_.layout, core_.pool.data(blocks_[page]), tokens - page * kBlockTokens,
               core_.pool.data(own));
  replace_block(page, own);
  shorten_path(page);
  return {};
}

// When the index and this sequence alone hold the last page, it leaves the index. So a sequence
// that fills the pool can still be rewound.
bool Sequence::take_over_last_page() {
  PrefixNode& node = *node_;
  const auto is_used = [](const Snapshot* snapshot) { return snapshot->pins > 0; };
  if (node.is_root() || node.block != blocks_.back() || node.pins > 1 || !node.children.empty() ||
      std::any_of(node.snapshots.begin(), node.snapshots.end(), is_used)) {
    return false;
  }
  shorten_path(indexed_blocks() - 1);
  core_.remove_node(node);
  return true;
}

void Sequence::truncate_to(uint64_t tokens) {
  rings_.erase(tokens, touched_);
  tokens_.truncate(tokens);
  entries_ = entries_completed(core_.layout, 0, tokens);
  hit_ = std::min(hit_, tokens);
  touched_ = tokens;
  if (private_from_ != kNeverPrivate) private_from_ = std::min(private_from_, tokens);
  if (!core_.paged()) return;
  shorten_path(tokens / kBlockTokens);
  while (blocks_.size() > core_.blocks_for(tokens)) pop_block();
  if (tokens % kBlockTokens == 0) return;
  CHECK_EQ(core_.pool.references(blocks_.back()), 1u);
  erase_entries(core_.layout, core_.pool.data(blocks_.back()), tokens % kBlockTokens);
}

uint64_t Sequence::indexed_blocks() const { return node_->end() / kBlockTokens; }

void Sequence::shorten_path(uint64_t blocks) {
  PrefixNode* const from = node_;
  while (indexed_blocks() > blocks) node_ = node_->parent;
  core_.tree.unpin_path(*from, node_);
}

void Sequence::publish_full_blocks() {
  if (!core_.paged()) return;
  const uint64_t exact_end = std::min(length(), private_from_);
  while (node_->end() + kBlockTokens <= exact_end) publish_block();
}

void Sequence::publish_block() {
  const TokenView tokens = this->tokens().slice(node_->end(), node_->end() + kBlockTokens);
  const uint64_t page = indexed_blocks();
  const uint64_t checksum = core_.checksum(blocks_[page]);
  PrefixNode* node = core_.tree.child(*node_, tokens);
  if (node != nullptr) {
    if (node->checksum != checksum) ++core_.counters.publish_mismatches;
    core_.pool.share(node->block);
    replace_block(page, node->block);
    ++core_.counters.blocks_deduplicated;
  } else {
    drop_covered_tails(tokens);
    core_.pool.share(blocks_[page]);
    node = &core_.tree.add(*node_, tokens, blocks_[page], checksum);
    ++core_.counters.blocks_published;
  }
  core_.tree.pin(*node);
  node_ = node;
}

void Sequence::drop_covered_tails(const TokenView& tokens) {
  while (PrefixNode* const tail = core_.tree.covered_tail(*node_, tokens)) core_.remove_node(*tail);
}

// The exact part of the block that is not full, for the index.
void Sequence::donate_tail() {
  const uint64_t exact_end = std::min(length(), private_from_);
  if (!core_.paged() || exact_end <= node_->end()) return;
  const TokenView tail = tokens().slice(node_->end(), exact_end);
  const BlockId block = blocks_[indexed_blocks()];
  if (core_.pool.references(block) > 1 || core_.tree.covers(*node_, tail)) return;
  erase_entries(core_.layout, core_.pool.data(block), tail.size());
  drop_covered_tails(tail);
  core_.pool.share(block);
  core_.tree.add(*node_, tail, block, core_.checksum(block));
}

Result<std::unique_ptr<Sequence>> Sequence::fork() {
  auto child = THIMBLE_TRY(create(core_, *node_, tokens_max_));
  const uint64_t full = core_.paged() ? length() / kBlockTokens : 0;
  for (uint64_t i = 0; i < full; ++i) child->adopt(blocks_[i]);
  if (core_.paged() && length() % kBlockTokens != 0) {
    THIMBLE_TRY(child->adopt_copy(blocks_[full], length() % kBlockTokens));
  }
  child->begin_with(tokens());
  child->hit_ = hit_;
  child->rings_.copy_from(rings_);
  child->rings_.erase(length(), touched_);
  child->private_from_ = private_from_;
  child->decoder_exact_ = decoder_exact_;
  return child;
}

void Sequence::replayed(uint64_t from, uint64_t to) {
  CHECK_LE(to, length());
  rings_.written(from, to);
}

void Sequence::mark_private() { private_from_ = std::min(private_from_, length()); }

uint64_t Sequence::rows_bytes() const {
  uint64_t bytes = 0;
  for (size_t o = 0; o < entries_.size(); ++o) {
    const arch::OwnerLayout& owner = core_.layout.owners[o];
    bytes += entries_[o] * (uint64_t{owner.main_row_bytes} + owner.index_row_bytes);
  }
  return bytes;
}

uint64_t Sequence::reserved_bytes() const { return blocks_.size() * core_.pool.stride_bytes(); }

}  // namespace thimble::cache
