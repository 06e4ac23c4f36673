// Aim: a context of 1,048,576 tokens of the released model is 890 MiB, by the cache's own counters
// and by the memory that the process takes. Method: reserve all of it; under label slow, fill every
// block with random entries and ask the operating system.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "cache/paged_cache.h"
#include "cache/testing.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;

TEST(LongContext, Reserves890MiBOfPool) {
  constexpr uint64_t kTokens = 1'048'576;
  const arch::Config& config = arch::released_config();
  const arch::CacheLayout layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  auto cache = *PagedCache::create(config, layout, {.pool_bytes = 890ULL << 20});
  EXPECT_EQ(cache->counters().blocks_total, kTokens / kBlockTokens);
  const auto sequence = *cache->open_empty(identity(), kTokens);
  ASSERT_TRUE(sequence->reserve(kTokens).has_value());
  EXPECT_EQ(cache->counters().blocks_free, 0u);
  EXPECT_EQ(cache->counters().reserved_bytes, 890ULL << 20);
}

uint64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib << 10;
  }
  return 0;
}

TEST(LongContextSlow, RandomEntriesTakes890MiBOfMemory) {
  constexpr uint64_t kTokens = 1'048'576;
  constexpr uint64_t kStep = 4096;
  const arch::Config& config = arch::released_config();
  const arch::CacheLayout layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  auto cache = *PagedCache::create(config, layout, {.pool_bytes = 890ULL << 20});
  const auto sequence = *cache->open_empty(identity(), kTokens);
  const uint64_t before = resident_bytes();
  base::SplitMix64 random(3);
  for (uint64_t n = 0; n < kTokens; n += kStep) {
    ASSERT_TRUE(sequence->reserve(n + kStep).has_value());
    for (uint64_t page = n / kBlockTokens; page < (n + kStep) / kBlockTokens; ++page) {
      auto* const words = reinterpret_cast<uint64_t*>(sequence->rows().main[0].pages[page]);
      for (uint64_t i = 0; i < layout.block_bytes / 8; ++i) words[i] = random.next();
    }
    std::vector<int32_t> ids(kStep);
    for (int32_t& id : ids) id = static_cast<int32_t>(random.below(129'280));
    sequence->commit(ids, entries_completed(layout, n, n + kStep));
  }
  EXPECT_EQ(sequence->rows_bytes(), 890ULL << 20);
  EXPECT_EQ(cache->counters().rows_written_bytes, 890ULL << 20);
  EXPECT_EQ(cache->counters().reserved_bytes, 890ULL << 20);
  const uint64_t grown = resident_bytes() - before;
  EXPECT_GE(grown, 890ULL << 20);
  EXPECT_LE(grown, 910ULL << 20) << "ids and index take a little more";
  EXPECT_EQ(violation(*cache), "");
}

}  // namespace
}  // namespace thimble::cache
