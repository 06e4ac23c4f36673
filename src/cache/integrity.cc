#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "cache/internal/block_rows.h"
#include "cache/internal/core.h"
#include "cache/paged_cache.h"
#include "cache/sequence.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;

template <class... Args>
tl::unexpected<Error> violation(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(ErrorCode::kInternal, format, std::forward<Args>(args)...);
}

}  // namespace

Result<void> Core::check_integrity() const {
  THIMBLE_TRY(check_references());
  THIMBLE_TRY(check_holders());
  THIMBLE_TRY(tree.check_shape());
  THIMBLE_TRY(check_pins());
  THIMBLE_TRY(check_nodes());
  THIMBLE_TRY(check_snapshots());
  for (const Sequence* sequence : sequences) THIMBLE_TRY(check_sequence(*sequence));
  if (counters.publish_mismatches > 0) {
    return violation("{} blocks were computed with other bytes than the index has for their tokens",
                     counters.publish_mismatches);
  }
  return {};
}

Result<void> Core::check_references() const {
  std::vector<uint32_t> expected(pool.blocks_total());
  const auto count = [&](BlockId block) { ++expected[static_cast<size_t>(block)]; };
  for (const PrefixNode* node : tree.all_nodes()) {
    if (!node->is_root()) count(node->block);
  }
  for (const Sequence* sequence : sequences) {
    for (const BlockId block : sequence->blocks_) count(block);
  }
  for (const auto& snapshot : snapshots.all()) {
    for (const BlockId block : snapshot->blocks) count(block);
  }
  return pool.check_references(expected);
}

Result<void> Core::check_holders() const {
  std::vector<uint32_t> expected(pool.blocks_total());
  uint64_t live = 0;
  for (const Sequence* sequence : sequences) {
    for (const BlockId block : sequence->blocks_) {
      if (++expected[static_cast<size_t>(block)] == 1) ++live;
    }
  }
  if (expected != holders) return violation("a block's holders are not the sequences that have it");
  if (live != blocks_live) {
    return violation("{} blocks are live, {} were counted", live, blocks_live);
  }
  return {};
}

Result<void> Core::check_pins() const {
  std::unordered_map<const PrefixNode*, uint32_t> node_pins;
  const auto count_path = [&](const PrefixNode* node) {
    for (; node != nullptr; node = node->parent) ++node_pins[node];
  };
  std::unordered_map<const Snapshot*, uint32_t> snapshot_pins;
  for (const Sequence* sequence : sequences) count_path(sequence->node_);
  for (const Match* match : matches) {
    count_path(&match->pinned());
    for (const Snapshot* snapshot : match->snapshots_) ++snapshot_pins[snapshot];
  }
  for (const PrefixNode* node : tree.all_nodes()) {
    if (node->pins != node_pins[node]) {
      return violation("a node that ends at {} has {} pins, {} users go through it", node->end(),
                       node->pins, node_pins[node]);
    }
  }
  for (const auto& snapshot : snapshots.all()) {
    if (snapshot->pins != snapshot_pins[snapshot.get()]) {
      return violation("the snapshot at {} has {} pins, {} matches hold it", snapshot->position,
                       snapshot->pins, snapshot_pins[snapshot.get()]);
    }
  }
  return {};
}

Result<void> Core::check_nodes() const {
  for (const PrefixNode* node : tree.all_nodes()) {
    if (node->is_root()) {
      const bool idle = node->pins == 0 && node->children.empty() && node->snapshots.empty();
      if (idle) return violation("a root stands that nothing needs");
      continue;
    }
    if (checksum(node->block) != node->checksum) {
      return violation("block {} ({} tokens up to {}) has changed since it was published",
                       static_cast<uint32_t>(node->block), node->tokens.view().size(), node->end());
    }
    if (!is_erased(layout, pool.data(node->block), node->tokens.view().size())) {
      return violation("the tail that ends at {} has rows beyond its tokens", node->end());
    }
  }
  return {};
}

Result<void> Core::check_snapshots() const {
  THIMBLE_TRY(snapshots.check());
  for (const auto& snapshot : snapshots.all()) {
    const uint64_t tokens = snapshot->remaining.view().size();
    if (snapshot->blocks.size() != blocks_for(tokens)) {
      return violation("the snapshot at {} has {} blocks for {} tokens", snapshot->position,
                       snapshot->blocks.size(), tokens);
    }
    if (snapshot->windows.size() != windows.snapshot_bytes(snapshot->position)) {
      return violation("the snapshot at {} has {} bytes of windows, not {}", snapshot->position,
                       snapshot->windows.size(), windows.snapshot_bytes(snapshot->position));
    }
    if (snapshot->marks.encoder_exact != (snapshot->private_from == kNeverPrivate) ||
        (snapshot->marks.encoder_exact && snapshot->blocks.size() > 1)) {
      return violation("the snapshot at {} holds private blocks without a mark",
                       snapshot->position);
    }
    if (tokens % kBlockTokens != 0 && !snapshot->blocks.empty() &&
        !is_erased(layout, pool.data(snapshot->blocks.back()), tokens % kBlockTokens)) {
      return violation("the snapshot at {} has rows beyond its tokens", snapshot->position);
    }
  }
  return {};
}

Result<void> Core::check_sequence(const Sequence& sequence) const {
  const uint64_t length = sequence.length();
  if (sequence.entries_ != entries_completed(layout, 0, length)) {
    return violation("a sequence of {} tokens holds other entries than these complete", length);
  }
  if (!sequence.rings_.rest_is_zero() || sequence.window_end() > length) {
    return violation("a sequence of {} tokens has window rows outside of [{}, {})", length,
                     sequence.window_begin(), sequence.window_end());
  }
  return paged() ? check_pages(sequence) : Result<void>{};
}

Result<void> Core::check_pages(const Sequence& sequence) const {
  const uint64_t length = sequence.length();
  const std::vector<PrefixNode*> path = path_to(*sequence.node_);
  const uint64_t full = length / kBlockTokens;
  const uint64_t publishable = std::min(length, sequence.private_from_) / kBlockTokens;
  if (sequence.blocks_.size() < blocks_for(length) || path.size() > publishable ||
      (path.size() < publishable && sequence.private_from_ == kNeverPrivate)) {
    return violation("a sequence of {} tokens has {} blocks, {} of them in the index", length,
                     sequence.blocks_.size(), path.size());
  }
  for (uint64_t page = 0; page < sequence.blocks_.size(); ++page) {
    const BlockId block = sequence.blocks_[page];
    const uint64_t begin = page * kBlockTokens;
    const uint64_t tokens = length > begin ? std::min<uint64_t>(length - begin, kBlockTokens) : 0;
    if (sequence.pages_[page] != pool.data(block)) {
      return violation("page {} does not lie where its block {} does", page,
                       static_cast<uint32_t>(block));
    }
    if (page < path.size() &&
        (path[page]->block != block ||
         compare(path[page]->tokens.view(), sequence.tokens().slice(begin, begin + kBlockTokens))
                 .order != 0)) {
      return violation("page {} is not the block that the index has for its tokens", page);
    }
    if (page >= full && pool.references(block) != 1) {
      return violation("page {}, which is not full, is shared", page);
    }
    if (!is_erased(layout, pool.data(block), tokens)) {
      return violation("a sequence of {} tokens has rows beyond them in page {}", length, page);
    }
  }
  return {};
}

}  // namespace thimble::cache
