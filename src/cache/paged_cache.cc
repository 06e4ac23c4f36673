#include "cache/paged_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "cache/internal/core.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;

// The last token is always computed: somebody wants its logits.
TokenView all_but_last(const TokenView& prompt) {
  return prompt.slice(0, prompt.size() == 0 ? 0 : prompt.size() - 1);
}

}  // namespace

Match::Match(Core& core, const CacheIdentity& identity, const TokenView& prompt, Exactness wanted)
    : core_(core), prompt_(all_but_last(prompt)) {
  const PrefixTree::Found found = core_.tree.find(identity, prompt_.view());
  node_ = found.node != nullptr ? found.node : &core_.tree.root(identity);
  partial_ = found.partial;
  indexed_ = found.tokens;
  hit_ = indexed_;
  core_.tree.pin_path(pinned());
  core_.matches.insert(this);
  path_ = path_to(*node_);
  find_snapshots(wanted);
}

Match::~Match() {
  for (Snapshot* snapshot : snapshots_) --snapshot->pins;
  core_.matches.erase(this);
  core_.tree.unpin_path(pinned());
}

void Match::find_snapshots(Exactness wanted) {
  for (PrefixNode* node = &pinned(); node != nullptr; node = node->parent) consider(*node, wanted);
  std::vector<size_t> order(uses_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (uses_[a].position != uses_[b].position) return uses_[a].position > uses_[b].position;
    return uses_[a].marks != uses_[b].marks && at_least(uses_[a].marks, uses_[b].marks);
  });
  std::vector<SnapshotUse> uses;
  std::vector<Snapshot*> snapshots;
  for (const size_t i : order) {
    uses.push_back(uses_[i]);
    snapshots.push_back(snapshots_[i]);
    ++snapshots_[i]->pins;
    if (uses_[i].marks.encoder_exact && uses_[i].position > hit_) {
      hit_ = uses_[i].position;
      extension_ = snapshots_[i];
    }
  }
  uses_ = std::move(uses);
  snapshots_ = std::move(snapshots);
}

void Match::consider(PrefixNode& node, Exactness wanted) {
  for (Snapshot* snapshot : node.snapshots) {
    if (!accepts(wanted, snapshot->marks)) continue;
    uint64_t common = std::min(indexed_, node.end());
    if (common == node.end()) {
      const TokenView rest = prompt_.view().slice(common, prompt_.end());
      common += compare(snapshot->remaining.view(), rest).common;
    }
    const std::optional<uint64_t> position = resume_position(*snapshot, common);
    if (!position) continue;
    uses_.push_back({*position, snapshot->position, snapshot->marks, snapshot->model});
    snapshots_.push_back(snapshot);
  }
}

// The block that holds entries of page `block` for a sequence of `hit` adopted tokens.
BlockId Match::source(uint64_t block, uint64_t hit, const Snapshot* snapshot) const {
  const auto own = [block](const Snapshot& of) -> BlockId {
    return of.blocks[block - of.node->end() / kBlockTokens];
  };
  if (snapshot != nullptr && !snapshot->marks.encoder_exact &&
      block >= snapshot->node->end() / kBlockTokens) {
    return own(*snapshot);
  }
  if (block < path_.size()) return path_[block]->block;
  if (hit <= indexed_) return partial_->block;
  CHECK(extension_ != nullptr);
  return own(*extension_);
}

PagedCache::PagedCache(std::unique_ptr<Core> core) : core_(std::move(core)) {}

PagedCache::~PagedCache() {
  CHECK(core_->sequences.empty());
  CHECK(core_->matches.empty());
}

Result<std::unique_ptr<PagedCache>> PagedCache::create(const arch::Config& config,
                                                       const arch::CacheLayout& layout,
                                                       const PagedCacheOptions& options) {
  BlockPool pool = THIMBLE_TRY(BlockPool::create(layout.block_bytes, options.pool_bytes));
  auto core =
      std::make_unique<Core>(layout, make_window_geometry(config, layout), std::move(pool),
                             options.snapshot_bytes, options.snapshot_ttl_us, options.clock_us);
  return std::unique_ptr<PagedCache>(new PagedCache(std::move(core)));
}

std::unique_ptr<Match> PagedCache::match(const CacheIdentity& identity, const TokenView& prompt,
                                         Exactness wanted) {
  CHECK_EQ(prompt.begin, 0u);
  CHECK(identity.format == core_->layout.format);
  core_->drop_expired();
  ++core_->counters.lookups;
  return std::unique_ptr<Match>(new Match(*core_, identity, prompt, wanted));
}

Result<std::unique_ptr<Sequence>> PagedCache::open(const Match& match, const Opening& opening) {
  Snapshot* snapshot = nullptr;
  if (opening.snapshot != nullptr) {
    const auto which = static_cast<size_t>(opening.snapshot - match.uses_.data());
    CHECK_LT(which, match.uses_.size());
    snapshot = match.snapshots_[which];
  }
  const bool is_private = snapshot != nullptr && !snapshot->marks.encoder_exact;
  const uint64_t hit = opening.hit;
  CHECK(is_private ? hit == opening.snapshot->position : hit <= match.hit());
  CHECK(snapshot == nullptr || opening.snapshot->position <= hit);
  CHECK_LE(hit, opening.tokens_max);

  const uint64_t full = core_->paged() ? hit / kBlockTokens : 0;
  const uint64_t indexed = is_private ? std::min(full, snapshot->node->end() / kBlockTokens) : full;
  PrefixNode* node = match.node_;
  while (node->end() > indexed * kBlockTokens) node = node->parent;
  auto sequence = THIMBLE_TRY(Sequence::create(*core_, *node, opening.tokens_max));
  for (uint64_t i = 0; i < full; ++i) sequence->adopt(match.source(i, hit, snapshot));
  if (core_->paged() && hit % kBlockTokens != 0) {
    THIMBLE_TRY(sequence->adopt_copy(match.source(full, hit, snapshot), hit % kBlockTokens));
  }
  sequence->begin_with(match.prompt_.view().slice(0, hit));
  if (snapshot != nullptr) {
    sequence->resume(*snapshot, opening.snapshot->position);
    core_->snapshots.touch(*snapshot, core_->clock_us());
    ++core_->counters.snapshots_used;
  }
  if (hit > 0) ++core_->counters.hits;
  core_->counters.tokens_reused += hit;
  return sequence;
}

Result<std::unique_ptr<Sequence>> PagedCache::open_empty(const CacheIdentity& identity,
                                                         uint64_t tokens_max) {
  CHECK(identity.format == core_->layout.format);
  PrefixNode& root = core_->tree.root(identity);
  auto sequence = Sequence::create(*core_, root, tokens_max);
  if (!sequence) core_->tree.remove_if_idle(root);
  return sequence;
}

void PagedCache::drop_expired() { core_->drop_expired(); }

const arch::CacheLayout& PagedCache::layout() const { return core_->layout; }

CacheCounters PagedCache::counters() const {
  CacheCounters now = core_->counters;
  const BlockPool& pool = core_->pool;
  now.blocks_total = pool.blocks_total();
  now.blocks_free = pool.blocks_free();
  now.blocks_indexed = core_->tree.nodes();
  now.blocks_evictable = core_->tree.evictable();
  now.blocks_shared = pool.blocks_shared();
  now.block_bytes = pool.stride_bytes();
  now.reserved_bytes = pool.used_bytes();
  now.live_sequences = core_->sequences.size();
  now.ring_bytes = core_->windows.bytes();
  now.snapshot_bytes = core_->snapshots.bytes();
  now.snapshot_bytes_max = core_->snapshots.bytes_max();
  now.snapshot_count = core_->snapshots.count();
  now.blocks_live = core_->blocks_live;
  return now;
}

uint64_t PagedCache::blocks_available() const { return core_->blocks_available(); }

Result<void> PagedCache::check_integrity() const { return core_->check_integrity(); }

}  // namespace thimble::cache
