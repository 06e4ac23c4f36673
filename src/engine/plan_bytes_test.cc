// Aim: the bytes that the planner states are those that the cache takes, exactly. Method: plans of
// the released geometry and of a small model, real caches made by them, filled to the planned
// context.
#include <gtest/gtest.h>

#include "cache/paged_cache.h"
#include "planner/startup_plan.h"

namespace thimble::engine {
namespace {

TEST(PlanBytes, TheCacheTakesWhatWasPlanned) {
  const arch::Config& config = arch::released_config();
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  const auto made = planner::plan_startup(config, layout, 1ULL << 39, {.context_tokens = 3000},
                                          {1ULL << 30, "MemAvailable"});
  ASSERT_TRUE(made.has_value());
  auto cache = cache::PagedCache::create(config, layout, {.pool_bytes = made->pool_bytes});
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ((*cache)->counters().blocks_total * layout.block_bytes, made->pool_bytes);
  auto sequence = (*cache)->open_empty({}, made->context_tokens);
  ASSERT_TRUE(sequence.has_value());
  ASSERT_TRUE((*sequence)->reserve(made->context_tokens).has_value());
  const uint64_t state = 12'288 + 12;  // held by model::SequenceState
  EXPECT_EQ((*sequence)->reserved_bytes() + (*sequence)->window_bytes() + state,
            made->sequence_bytes);
}

}  // namespace
}  // namespace thimble::engine
