// Aim: the context is what the model or the memory allows, refused or shortened with the numbers.
// Method: the released configuration with made-up amounts of memory; arithmetic by hand. That the
// plan is what is then allocated is tested above this module (engine/plan_bytes_test.cc).
#include "planner/startup_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace thimble::planner {
namespace {

using testing::HasSubstr;

constexpr uint64_t kWindows = 40ULL * 136 * 528;  // with slack
constexpr uint64_t kFixed = kWindows + 12'288 + 12;
constexpr uint64_t kBlock = 113'920;
constexpr uint64_t kWeights = 510'286'023'000;  // more than any memory here: half of it is left

class StartupPlanTest : public testing::Test {
 protected:
  Result<StartupPlan> plan(uint64_t context, uint64_t available) {
    return plan_startup(config, layout, kWeights, {.context_tokens = context},
                        {available, "MemAvailable"});
  }
  const arch::Config& config = arch::released_config();
  arch::CacheLayout layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
};

TEST_F(StartupPlanTest, PlentyOfMemoryGivesTheModelsMaximum) {
  const auto made = plan(0, 64ULL << 30);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->context_tokens, 1'048'576u);
  EXPECT_FALSE(made->clamped());
  EXPECT_EQ(made->cache_bytes_per_token, 890.0);
  EXPECT_EQ(made->fixed_bytes, kFixed);
  EXPECT_EQ(made->sequence_bytes, kFixed + 8192 * kBlock);
  const std::string text = to_text(*made);
  EXPECT_THAT(text, HasSubstr("510,286,023,000 bytes mapped"));
  EXPECT_THAT(text, HasSubstr("890 bytes a token"));
  EXPECT_THAT(text, HasSubstr("1,048,576 tokens;"));
  EXPECT_THAT(text, HasSubstr("read from disk again and again"));
}

// Those whose windows take a 32nd of the memory, from 1 to 32.
constexpr uint64_t sequences_of(uint64_t available) {
  return std::clamp<uint64_t>(available / 32 / kFixed, 1, 32);
}

// Three quarters of what the weights leave, less snapshots and the sequences' own state.
constexpr uint64_t pool_of(uint64_t left, uint64_t available) {
  return (left - left / 4 - available / 10 - sequences_of(available) * kFixed) / kBlock * kBlock;
}

TEST_F(StartupPlanTest, LittleMemoryShortensTheDefaultToWholeBlocks) {
  const auto made = plan(0, 1ULL << 30);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->pool_bytes, pool_of(1ULL << 29, 1ULL << 30));
  EXPECT_EQ(made->sequences, 11u);
  EXPECT_EQ(made->snapshot_bytes, (1ULL << 30) / 10);
  EXPECT_EQ(made->context_tokens, made->pool_bytes / kBlock * 128);
  EXPECT_TRUE(made->clamped());
  EXPECT_THAT(to_text(*made), HasSubstr("the model's maximum is 1,048,576"));
}

TEST_F(StartupPlanTest, ThePoolTakesWhatSmallWeightsLeave) {
  const auto made = plan_startup(config, layout, 6ULL << 30, {}, {16ULL << 30, "MemAvailable"});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->sequences, 32u);
  EXPECT_EQ(made->pool_bytes, pool_of(10ULL << 30, 16ULL << 30));
  // Not more than anybody could use.
  EXPECT_EQ(plan(0, 1ULL << 40)->pool_bytes, kContextsMax * 8192 * kBlock);
}

// Each more at once takes its windows, a row of every step, its window's copy and its logits.
TEST_F(StartupPlanTest, SequencesAtOnceAreCounted) {
  StartupWishes wishes{.kv_bytes = 10 * kBlock, .snapshot_bytes = 0, .sequences = 1};
  const base::AvailableMemory memory{64ULL << 30, "MemAvailable"};
  const auto one = plan_startup(config, layout, kWeights, wishes, memory);
  wishes.sequences = 64;
  const auto many = plan_startup(config, layout, kWeights, wishes, memory);
  ASSERT_TRUE(one.has_value() && many.has_value());
  EXPECT_EQ(many->sequences, 64u);
  EXPECT_EQ(many->process_bytes - one->process_bytes,
            63 * kFixed + many->step_bytes - one->step_bytes);
  const uint64_t row = (many->step_bytes - one->step_bytes) / 63;
  EXPECT_GT(row, 128 * 528 + config.vocab_size * 20ULL);
  EXPECT_THAT(to_text(*many), HasSubstr("at once   64 sequences"));
}

TEST_F(StartupPlanTest, SizesAskedForAreKept) {
  StartupWishes wishes{.kv_bytes = 10 * kBlock + 5, .snapshot_bytes = 77};
  const base::AvailableMemory memory{1ULL << 30, "MemAvailable"};
  const auto made = plan_startup(config, layout, kWeights, wishes, memory);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->pool_bytes, 10 * kBlock);
  EXPECT_EQ(made->snapshot_bytes, 77u);
  EXPECT_EQ(made->context_tokens, 1280u);
  wishes.kv_bytes = 1ULL << 31;
  const auto refused = plan_startup(config, layout, kWeights, wishes, memory);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("2.00 GiB for global KV"));
}

TEST_F(StartupPlanTest, AContextAskedForIsNeverShortened) {
  const auto small = plan(5000, 1ULL << 30);
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(small->context_tokens, 5000u);
  EXPECT_EQ(small->sequence_bytes, kFixed + 40 * kBlock);

  const auto large = plan(1'000'000, 1ULL << 30);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(large.error().message, HasSubstr("1,000,000 tokens takes"));
  EXPECT_THAT(large.error().message, HasSubstr("296,064 tokens fit"));

  const auto beyond = plan(1'048'577, 64ULL << 30);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(beyond.error().message, HasSubstr("maximum is 1,048,576"));
}

TEST_F(StartupPlanTest, NoRoomForABlockIsRefused) {
  for (const uint64_t available : {uint64_t{0}, kFixed, 3 * kFixed}) {
    const auto made = plan(0, available);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(made.error().message, HasSubstr("0 tokens fit"));
  }
  EXPECT_TRUE(plan(0, 8 * (kFixed + kBlock)).has_value());
}

TEST_F(StartupPlanTest, ModelWithoutGlobalCacheIsBoundByItsMaximumOnly) {
  layout.owners.clear();
  layout.block_bytes = 0;
  const auto made = plan(0, 1ULL << 30);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->context_tokens, 1'048'576u);
  EXPECT_EQ(made->sequence_bytes, made->fixed_bytes);
}

}  // namespace
}  // namespace thimble::planner
