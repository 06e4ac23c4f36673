// Aim: a sequence's rows lie where arch/cache_layout.h says, never on top of each other, and stay
// where they are while the sequence grows; what is reserved is whole blocks. Method: mark every
// byte that a view addresses and look for bytes marked twice or never; compare addresses before and
// after growth; compare counters with block arithmetic done by hand.
#include "cache/sequence_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
// The exhaustion tests ask for more than can exist: null, as without the sanitizer, not an abort.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#elif defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace thimble::cache {
namespace {

using arch::CacheFormat;

SequenceCache make(CacheFormat format, uint64_t tokens_max) {
  const arch::Config& config = arch::released_config();
  auto cache = SequenceCache::create(config, arch::make_cache_layout(config, format), tokens_max);
  EXPECT_TRUE(cache.has_value());
  return std::move(*cache);
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

class EveryFormat : public testing::TestWithParam<CacheFormat> {};
INSTANTIATE_TEST_SUITE_P(SequenceCache, EveryFormat,
                         testing::Values(CacheFormat::kPacked, CacheFormat::kFloat));

TEST_P(EveryFormat, GlobalRowsCoverEachBlockExactlyOnce) {
  constexpr uint64_t kTokens = 3 * arch::kBlockTokens;
  const arch::CacheLayout layout = arch::make_cache_layout(arch::released_config(), GetParam());
  SequenceCache cache = make(GetParam(), kTokens);
  ASSERT_TRUE(cache.reserve(kTokens).has_value());
  std::map<const std::byte*, Ranges> pages;
  ASSERT_EQ(cache.rows().main.size(), layout.owners.size());
  ASSERT_EQ(cache.rows().index.size(), layout.owners.size());
  for (size_t o = 0; o < layout.owners.size(); ++o) {
    const kernels::PagedRows& main = cache.rows().main[o];
    const kernels::PagedTiles& index = cache.rows().index[o];
    const uint64_t entries = arch::entries_after(kTokens, layout.owners[o].ratio);
    for (uint64_t e = 0; e < entries; ++e) {
      const std::byte* const page = main.pages[e / main.rows_per_page];
      pages[page].add(page, main.row(e), main.row_bytes);
    }
    for (uint64_t t = 0; t < entries / kernels::kTileRows; ++t) {
      const std::byte* const page = index.pages[t / index.tiles_per_page];
      pages[page].add(page, index.tile(t), index.tile_bytes);
    }
  }
  EXPECT_EQ(pages.size(), 3u);
  for (auto& [page, ranges] : pages) EXPECT_TRUE(ranges.tile(layout.block_bytes));
}

TEST_P(EveryFormat, RingsHoldWindowAndSlackAndNeverOverlap) {
  const arch::Config& config = arch::released_config();
  SequenceCache cache = make(GetParam(), 1);
  const auto& windows = cache.rows().windows;
  ASSERT_EQ(windows.size(), config.num_hidden_layers);
  Ranges ranges;
  for (const kernels::RingRows& ring : windows) {
    ASSERT_EQ(ring.slots, config.sliding_window + arch::kWindowSlackRows);
    for (uint64_t position = 1000; position < 1000 + ring.slots; ++position) {
      ranges.add(windows[0].base, ring.row(position), ring.row_bytes);
    }
    EXPECT_EQ(ring.row(5), ring.row(5 + ring.slots));
  }
  EXPECT_TRUE(ranges.tile(cache.window_bytes()));
}

TEST(SequenceCache, ReleasedModelNumbers) {
  SequenceCache cache = make(CacheFormat::kPacked, 4096);
  ASSERT_TRUE(cache.reserve(129).has_value());
  EXPECT_EQ(cache.reserved_bytes(), 2 * 113'920u);
  EXPECT_EQ(cache.window_bytes(), 40u * 136u * 528u);
  EXPECT_EQ(cache.rows().main[0].row_bytes, 288u);
  EXPECT_EQ(cache.rows().index[0].tile_bytes, 16u * 68u);
}

TEST(SequenceCache, ReservesWholeBlocksAndNeverShrinks) {
  for (uint64_t tokens = 0; tokens <= 600; ++tokens) {
    SequenceCache cache = make(CacheFormat::kPacked, 600);
    ASSERT_TRUE(cache.reserve(tokens).has_value());
    ASSERT_EQ(cache.reserved_bytes(), (tokens + 127) / 128 * 113'920) << tokens;
    if (tokens % 97 != 0) continue;
    const uint64_t before = cache.reserved_bytes();
    ASSERT_TRUE(cache.reserve(tokens / 2).has_value());
    EXPECT_EQ(cache.reserved_bytes(), before);
  }
}

TEST(SequenceCache, ViewsSurviveGrowthAndMove) {
  constexpr uint64_t kTokens = 100'000;
  SequenceCache cache = make(CacheFormat::kPacked, kTokens);
  ASSERT_TRUE(cache.reserve(1).has_value());
  const kernels::SequenceRows early = cache.rows();
  std::byte* const first = early.main[3].row(7);
  *first = std::byte{42};
  ASSERT_TRUE(cache.reserve(kTokens).has_value());
  EXPECT_EQ(early.main[3].row(7), first);
  *early.main[3].row(kTokens - 1) = std::byte{43};  // a page that did not exist then

  const SequenceCache moved = std::move(cache);
  EXPECT_EQ(*moved.rows().main[3].row(7), std::byte{42});
  EXPECT_EQ(*moved.rows().main[3].row(kTokens - 1), std::byte{43});
  EXPECT_EQ(moved.rows().main[3].row(7), first);
  EXPECT_EQ(moved.rows().windows[39].row(3), early.windows[39].row(3));
}

TEST(SequenceCache, StartsAsZeros) {
  // A used block goes back to the allocator first, so that a missing fill has something to show.
  for (int round = 0; round < 2; ++round) {
    SequenceCache cache = make(CacheFormat::kPacked, 256);
    ASSERT_TRUE(cache.reserve(256).has_value());
    const kernels::SequenceRows& rows = cache.rows();
    for (int page = 0; page < 2; ++page) {
      std::byte* const bytes = rows.main[0].pages[page];
      EXPECT_EQ(std::count(bytes, bytes + 113'920, std::byte{0}), 113'920);
      std::memset(bytes, 0xAB, 113'920);
    }
    std::byte* const windows = rows.windows[0].base;
    EXPECT_EQ(
        static_cast<uint64_t>(std::count(windows, windows + cache.window_bytes(), std::byte{0})),
        cache.window_bytes());
    std::memset(windows, 0xAB, cache.window_bytes());
  }
}

TEST(SequenceCache, OutOfMemoryIsAnErrorThatNamesTheBytes) {
  const arch::Config& config = arch::released_config();
  arch::CacheLayout layout = arch::make_cache_layout(config, CacheFormat::kPacked);
  layout.block_bytes = 1ULL << 50;
  auto cache = SequenceCache::create(config, layout, 1000);
  ASSERT_TRUE(cache.has_value());
  const auto reserved = cache->reserve(300);
  ASSERT_FALSE(reserved.has_value());
  EXPECT_EQ(reserved.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(reserved.error().message, testing::HasSubstr("1,125,899,906,842,624"));
  EXPECT_EQ(cache->reserved_bytes(), 0u);
  EXPECT_TRUE(cache->reserve(0).has_value());

  layout.window_layers = 1U << 30;
  const auto rings = SequenceCache::create(config, layout, 1000);
  ASSERT_FALSE(rings.has_value());
  EXPECT_EQ(rings.error().code, ErrorCode::kResourceExhausted);
}

TEST(SequenceCache, ModelOfWindowLayersAloneNeedsNoBlocks) {
  arch::CacheLayout layout = arch::make_cache_layout(arch::released_config(), CacheFormat::kPacked);
  layout.owners.clear();
  layout.block_bytes = 0;
  auto cache = SequenceCache::create(arch::released_config(), layout, 1000);
  ASSERT_TRUE(cache.has_value());
  ASSERT_TRUE(cache->reserve(1000).has_value());
  EXPECT_EQ(cache->reserved_bytes(), 0u);
  EXPECT_TRUE(cache->rows().main.empty());
  EXPECT_EQ(cache->rows().windows.size(), 40u);
}

}  // namespace
}  // namespace thimble::cache
