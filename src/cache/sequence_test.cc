// Aim: a sequence's rows lie where arch/cache_layout.h says and are counted as they are written; of
// what is rejected, rewound or aborted nothing remains; shared blocks are never changed. Method:
// every byte that a view addresses marked once; the fake model of cache/testing.h, whose rows tell
// which text they belong to; check_integrity() after each step.
#include "cache/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "cache/paged_cache.h"
#include "cache/testing.h"

namespace thimble::cache {
namespace {

using arch::CacheFormat;
using arch::kBlockTokens;

constexpr uint64_t kEdges[] = {1, 2, 127, 128, 129, 200, 201, 255, 256, 257, 300};

std::unique_ptr<PagedCache> released_cache(CacheFormat format, uint64_t blocks) {
  const arch::Config& config = arch::released_config();
  const arch::CacheLayout layout = arch::make_cache_layout(config, format);
  auto cache = PagedCache::create(config, layout, {.pool_bytes = blocks * layout.block_bytes});
  EXPECT_TRUE(cache.has_value());
  return std::move(*cache);
}

CacheIdentity of_format(CacheFormat format) {
  CacheIdentity made = identity();
  made.format = format;
  return made;
}

// Ranges of bytes of one allocation, to be laid side by side.
class Ranges {
 public:
  void add(const std::byte* base, const std::byte* from, uint64_t bytes) {
    ranges_.emplace_back(from - base, bytes);
  }
  // Do they cover [0, bytes) with no gap and no overlap?
  bool tile(uint64_t bytes) {
    std::sort(ranges_.begin(), ranges_.end());
    int64_t end = 0;
    for (const auto& [begin, size] : ranges_) {
      if (begin != end) return false;
      end = begin + static_cast<int64_t>(size);
    }
    return end == static_cast<int64_t>(bytes);
  }

 private:
  std::vector<std::pair<int64_t, uint64_t>> ranges_;
};

class SequenceFormats : public testing::TestWithParam<CacheFormat> {};
INSTANTIATE_TEST_SUITE_P(Sequence, SequenceFormats,
                         testing::Values(CacheFormat::kPacked, CacheFormat::kFloat));

TEST_P(SequenceFormats, GlobalRowsCoverEachBlockExactlyOnce) {
  constexpr uint64_t kTokens = 3 * kBlockTokens;
  const auto cache = released_cache(GetParam(), 3);
  const arch::CacheLayout& layout = cache->layout();
  auto sequence = *cache->open_empty(of_format(GetParam()), kTokens);
  ASSERT_TRUE(sequence->reserve(kTokens).has_value());
  const kernels::SequenceRows& rows = sequence->rows();
  std::map<const std::byte*, Ranges> pages;
  ASSERT_EQ(rows.main.size(), layout.owners.size());
  ASSERT_EQ(rows.index.size(), layout.owners.size());
  for (size_t o = 0; o < layout.owners.size(); ++o) {
    const uint64_t entries = arch::entries_after(kTokens, layout.owners[o].ratio);
    for (uint64_t e = 0; e < entries; ++e) {
      const std::byte* const page = rows.main[o].pages[e / rows.main[o].rows_per_page];
      pages[page].add(page, rows.main[o].row(e), rows.main[o].row_bytes);
    }
    for (uint64_t t = 0; t < entries / kernels::kTileRows; ++t) {
      const std::byte* const page = rows.index[o].pages[t / rows.index[o].tiles_per_page];
      pages[page].add(page, rows.index[o].tile(t), rows.index[o].tile_bytes);
    }
  }
  EXPECT_EQ(pages.size(), 3u);
  for (auto& [page, ranges] : pages) EXPECT_TRUE(ranges.tile(layout.block_bytes));
}

TEST_P(SequenceFormats, RingsHoldWindowAndSlackAndNeverOverlap) {
  const arch::Config& config = arch::released_config();
  const auto cache = released_cache(GetParam(), 0);
  const auto sequence = *cache->open_empty(of_format(GetParam()), 0);
  ASSERT_EQ(sequence->rows().windows.size(), config.num_hidden_layers);
  Ranges ranges;
  for (const kernels::RingRows& ring : sequence->rows().windows) {
    EXPECT_EQ(ring.slots, config.sliding_window + arch::kWindowSlackRows);
    for (uint64_t p = 1000; p < 1000 + ring.slots; ++p) {
      ranges.add(sequence->rows().windows[0].base, ring.row(p), ring.row_bytes);
    }
  }
  EXPECT_TRUE(ranges.tile(sequence->window_bytes()));
}

TEST(Sequence, ReleasedModelNumbers) {
  const auto cache = released_cache(CacheFormat::kPacked, 2);
  const auto sequence = *cache->open_empty(identity(), 4096);
  ASSERT_TRUE(sequence->reserve(129).has_value());
  EXPECT_EQ(sequence->reserved_bytes(), 2 * 113'920u);
  EXPECT_EQ(cache->counters().reserved_bytes, 2 * 113'920u);
  EXPECT_EQ(sequence->window_bytes(), 40u * 136u * 528u);
  EXPECT_EQ(sequence->rows().main[0].row_bytes, 288u);
  EXPECT_EQ(sequence->rows().main[0].dims, 512u);
  EXPECT_EQ(sequence->rows().index[0].tile_bytes, 16u * 68u);
  EXPECT_EQ(sequence->rows().index[0].dims, 128u);
}

TEST(Sequence, CountsRowsAsTheyAreWrittenAndBlocksAsTheyAreReserved) {
  const auto cache = released_cache(CacheFormat::kPacked, 8);
  const auto sequence = *cache->open_empty(identity(), 1000);
  const std::vector<int32_t> ids = text_ids(1000);
  for (uint64_t n = 1; n <= 1000; ++n) {
    ASSERT_TRUE(sequence->reserve(n).has_value());
    sequence->commit({&ids[n - 1], 1}, entries_completed(cache->layout(), n - 1, n));
    ASSERT_EQ(sequence->rows_bytes(), (3 * (n / 2) + n) * 356) << n;
    ASSERT_EQ(sequence->rows_bytes(), cache->layout().rows_bytes(n)) << "the planner's function";
    ASSERT_EQ(cache->counters().rows_written_bytes, sequence->rows_bytes());
    ASSERT_EQ(sequence->reserved_bytes(), (n + 127) / 128 * 113'920);
    ASSERT_EQ(cache->counters().reserved_bytes, sequence->reserved_bytes());
  }
}

TEST(SequenceDeathTest, AStepThatStoredTooLittleStops) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 4));
  const auto sequence = *cache->open_empty(identity(), 100);
  ASSERT_TRUE(sequence->reserve(2).has_value());
  const std::vector<int32_t> ids = text_ids(2);
  EXPECT_DEATH(sequence->commit(ids, std::vector<uint64_t>{1, 0, 2}), "0 vs 1");
}

TEST(Sequence, ViewsSurviveGrowth) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 40));
  auto sequence = *cache->open_empty(identity(), 5000);
  ASSERT_TRUE(sequence->reserve(1).has_value());
  const kernels::SequenceRows early = sequence->rows();
  std::byte* const first = early.main[2].row(0);
  *first = std::byte{42};
  ASSERT_TRUE(sequence->reserve(5000).has_value());
  EXPECT_EQ(early.main[2].row(0), first);
  *early.main[2].row(4999) = std::byte{43};  // a page that did not exist then
  EXPECT_EQ(*sequence->rows().main[2].row(4999), std::byte{43});
}

// Another user's rows are all over the pool, then zeros are asked for.
TEST(Sequence, StartsAsZerosWhateverWasThereBefore) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 3));
  run(*cache, model, text_ids(300));
  const auto sequence = *cache->open_empty(identity(), 384);
  ASSERT_TRUE(sequence->reserve(384).has_value());
  EXPECT_EQ(violation(*cache), "");
}

TEST(Sequence, ANewLengthHoldsOnlyItsOwnRows) {
  const FakeModel model;
  for (const uint64_t length : kEdges) {
    for (const uint64_t rejected : {1u, 2u, 5u, 130u, 300u}) {
      const auto cache = make_cache(model, small_pool(model, 10));
      const auto sequence = run(*cache, model, text_ids(length));
      const std::vector<int32_t> draft = text_ids(length + rejected, 1, length);
      ASSERT_TRUE(sequence->reserve(length + rejected).has_value());
      model.write(*sequence, std::span(draft).subspan(length));
      EXPECT_FALSE(cache->check_integrity().has_value()) << "the check must see rows left behind";
      sequence->discard_uncommitted();
      EXPECT_EQ(violation(*cache), "");
      EXPECT_EQ(model.differences(*sequence), "") << length << " " << rejected;
      EXPECT_EQ(sequence->windows_complete(),
                rejected <= arch::kWindowSlackRows + 1 || length + rejected <= 16);
      EXPECT_EQ(hit_of(*cache, draft), length / 128 * 128) << "a draft is never found";
    }
  }
}

TEST(Sequence, AcceptsPartOfADraft) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 10));
  std::vector<int32_t> text = text_ids(120);
  const auto sequence = run(*cache, model, text);
  // Rounds of 6 rows, 0 to 6 of them accepted, over block and ring edges.
  for (uint64_t round = 0; round < 60; ++round) {
    const uint64_t from = text.size();
    const std::vector<int32_t> draft = text_ids(from + 6, 1 + round % 5, 0);
    const uint64_t accepted = round % 7;
    ASSERT_TRUE(sequence->reserve(from + 6).has_value());
    model.write(*sequence, std::span(draft).subspan(from));
    sequence->commit(std::span(draft).subspan(from, accepted),
                     entries_completed(model.layout(), from, from + accepted));
    sequence->discard_uncommitted();
    text.insert(text.end(), draft.begin() + static_cast<ptrdiff_t>(from),
                draft.begin() + static_cast<ptrdiff_t>(from + accepted));
    EXPECT_EQ(violation(*cache), "");
    ASSERT_EQ(model.differences(*sequence), "") << round;
    ASSERT_TRUE(sequence->windows_complete());
  }
  EXPECT_EQ(sequence->length(), text.size());
}

TEST(Sequence, RewindsToAnyLengthAndLeavesTheIndexAlone) {
  const FakeModel model;
  for (const uint64_t length : kEdges) {
    for (const uint64_t kept : kEdges) {
      if (kept > length) continue;
      const auto cache = make_cache(model, small_pool(model, 10));
      const auto sequence = run(*cache, model, text_ids(length));
      ASSERT_TRUE(sequence->rewind(kept).has_value());
      EXPECT_EQ(violation(*cache), "");
      EXPECT_EQ(sequence->length(), kept);
      EXPECT_EQ(sequence->rows_bytes(), model.layout().rows_bytes(kept));
      EXPECT_EQ(model.differences(*sequence), "") << length << " to " << kept;
      EXPECT_EQ(hit_of(*cache, text_ids(length + 1)), length / 128 * 128);
      // Another continuation, then the first text must still be whole.
      const std::vector<int32_t> other = text_ids(kept + 140, 1, kept);
      ASSERT_TRUE(model.append(*sequence, std::span(other).subspan(kept)).has_value());
      EXPECT_EQ(violation(*cache), "");
      EXPECT_EQ(model.differences(*sequence), "") << length << " to " << kept;
      EXPECT_EQ(hit_of(*cache, text_ids(length + 1)), std::max(length / 128 * 128, kept));
      EXPECT_EQ(hit_of(*cache, other),
                (kept + 140) / 128 * 128 == kept + 140 ? kept + 139 : (kept + 140) / 128 * 128);
    }
  }
}

// Rows that a rewind leaves are whole or not; forgotten, none of them remains in any slot, entries
// stay, and a replay in pieces brings the window back.
TEST(Sequence, ForgottenWindowsAreGoneUntilTheyAreReplayed) {
  const FakeModel model;
  const uint64_t window = model.config().sliding_window;
  for (const uint64_t length : {1u, 7u, 8u, 9u, 16u, 17u, 129u, 300u}) {
    for (const uint64_t kept : {uint64_t{1}, length / 2 + 1, length}) {
      const auto cache = make_cache(model, small_pool(model, 10));
      const auto sequence = run(*cache, model, text_ids(length));
      ASSERT_TRUE(sequence->rewind(kept).has_value());
      sequence->forget_windows();
      EXPECT_EQ(sequence->window_begin(), sequence->window_end());
      EXPECT_EQ(sequence->windows_complete(), false) << length << " to " << kept;
      EXPECT_FALSE(sequence->take_snapshot(FakeModel::state(*sequence)).has_value());
      EXPECT_EQ(violation(*cache), "") << "a row was left in a ring";
      EXPECT_EQ(sequence->rows_bytes(), model.layout().rows_bytes(kept));

      const uint64_t from = kept > window ? kept - window : 0;
      const uint64_t middle = from + (kept - from) / 2;
      model.replay(*sequence, from, middle);
      EXPECT_EQ(sequence->windows_complete(), middle == kept);
      model.replay(*sequence, middle, kept);
      EXPECT_TRUE(sequence->windows_complete());
      EXPECT_EQ(violation(*cache), "");
      EXPECT_EQ(model.differences(*sequence), "") << length << " to " << kept;
      const std::vector<int32_t> other = text_ids(kept + 20, 1, kept);
      ASSERT_TRUE(model.append(*sequence, std::span(other).subspan(kept)).has_value());
      EXPECT_EQ(model.differences(*sequence), "") << length << " to " << kept;
    }
  }
}

TEST(Sequence, ForksShareFullBlocksAndNothingElse) {
  const FakeModel model;
  for (const uint64_t length : kEdges) {
    const auto cache = make_cache(model, small_pool(model, 20));
    auto parent = run(*cache, model, text_ids(length));
    // What the parent has not committed is not the child's.
    ASSERT_TRUE(parent->reserve(length + 3).has_value());
    model.write(*parent, text_ids(3, 4));
    auto child = *parent->fork();
    parent->discard_uncommitted();
    EXPECT_EQ(violation(*cache), "");
    EXPECT_EQ(model.differences(*child), "");
    EXPECT_EQ(cache->counters().blocks_live, length / 128 + (length % 128 != 0 ? 2 : 0));
    const std::vector<int32_t> left = text_ids(length + 150, 1, length);
    const std::vector<int32_t> right = text_ids(length + 150, 2, length);
    ASSERT_TRUE(model.append(*parent, std::span(left).subspan(length)).has_value());
    ASSERT_TRUE(model.append(*child, std::span(right).subspan(length)).has_value());
    EXPECT_EQ(violation(*cache), "");
    EXPECT_EQ(model.differences(*parent), "") << length;
    EXPECT_EQ(model.differences(*child), "") << length;
    // A rejection in one leaves the other untouched.
    ASSERT_TRUE(parent->rewind(length > 3 ? length - 3 : 0).has_value());
    EXPECT_EQ(model.differences(*child), "");
    parent.reset();
    EXPECT_EQ(violation(*cache), "");
    EXPECT_EQ(model.differences(*child), "");
    EXPECT_TRUE(child->windows_complete());
  }
}

TEST(Sequence, TwoThatComputeTheSameTextKeepOneCopy) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 10));
  const auto a = run(*cache, model, text_ids(300));
  const auto b = run(*cache, model, text_ids(300));
  EXPECT_EQ(violation(*cache), "");
  EXPECT_EQ(cache->counters().blocks_deduplicated, 2u);
  EXPECT_EQ(cache->counters().blocks_live, 4u);  // two full ones, and a partial one each
  EXPECT_EQ(a->rows().main[0].pages[0], b->rows().main[0].pages[0]);
  EXPECT_NE(a->rows().main[0].pages[2], b->rows().main[0].pages[2]);
  EXPECT_EQ(model.differences(*b), "");
}

TEST(Sequence, AnImpureRowIsReported) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 10));
  const std::vector<int32_t> text = text_ids(128);
  const auto a = run(*cache, model, text);
  const auto b = run(*cache, model, text_ids(127));
  *b->rows().main[0].row(3) ^= std::byte{1};
  ASSERT_TRUE(model.append(*b, std::span(text).subspan(127)).has_value());
  EXPECT_EQ(cache->counters().publish_mismatches, 1u);
  EXPECT_FALSE(cache->check_integrity().has_value());
  EXPECT_EQ(model.differences(*b), "") << "the published copy stays";
}

TEST(Sequence, AChangedPublishedBlockIsReported) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 10));
  const auto sequence = run(*cache, model, text_ids(200));
  EXPECT_EQ(violation(*cache), "");
  *sequence->rows().main[0].row(3) ^= std::byte{1};
  EXPECT_FALSE(cache->check_integrity().has_value());
  *sequence->rows().main[0].row(3) ^= std::byte{1};
  EXPECT_EQ(violation(*cache), "");
}

TEST(Sequence, AModelOfWindowLayersAloneNeedsNoBlocks) {
  arch::Config config = small_config();
  config.compress_ratios.assign(8, 0);
  config.kv_source_layer_ids.clear();
  config.index_source_layer_ids.clear();
  const FakeModel model(config);
  ASSERT_EQ(model.layout().block_bytes, 0u);
  PagedCacheOptions options = small_pool(model, 0);
  options.snapshot_bytes = 1 << 20;
  const auto cache = make_cache(model, options);
  auto sequence = run(*cache, model, text_ids(300));
  EXPECT_EQ(sequence->reserved_bytes(), 0u);
  EXPECT_TRUE(sequence->rows().main.empty());
  ASSERT_TRUE(sequence->take_snapshot(FakeModel::state(*sequence)).has_value());
  EXPECT_EQ(violation(*cache), "");
  ASSERT_TRUE(sequence->rewind(297).has_value());
  EXPECT_TRUE((*sequence->fork())->windows_complete());
  sequence.reset();
  EXPECT_EQ(violation(*cache), "");
  const auto match = cache->match(identity(), text_ids(301), Exactness::kExact);
  ASSERT_EQ(match->snapshots().size(), 1u);
  EXPECT_EQ(match->hit(), 300u);
  const auto again =
      cache->open(*match, {.hit = 300, .snapshot = &match->snapshots()[0], .tokens_max = 400});
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE((*again)->windows_complete());
  EXPECT_EQ(model.differences(**again), "");
  EXPECT_EQ(violation(*cache), "");
}

}  // namespace
}  // namespace thimble::cache
