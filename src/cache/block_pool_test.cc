// Aim: blocks are handed out once, as zeros, never while somebody refers to them, and what they
// cost is counted. Method: take, dirty, share and release by hand; wrong references given to the
// check on purpose.
#include "cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace thimble::cache {
namespace {

BlockPool make(uint64_t block_bytes, uint64_t pool_bytes) {
  auto pool = BlockPool::create(block_bytes, pool_bytes);
  EXPECT_TRUE(pool.has_value());
  return std::move(*pool);
}

bool is_zero(const BlockPool& pool, BlockId block) {
  const std::byte* const bytes = pool.data(block);
  return std::all_of(bytes, bytes + pool.block_bytes(), [](auto b) { return b == std::byte{0}; });
}

TEST(BlockPool, BlocksAreDistinctAlignedAndFinite) {
  BlockPool pool = make(113'920, 113'920 * 10 + 5);
  EXPECT_EQ(pool.blocks_total(), 10u);
  std::set<const std::byte*> places;
  for (int i = 0; i < 10; ++i) {
    const auto block = pool.take();
    ASSERT_TRUE(block.has_value());
    places.insert(pool.data(*block));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.data(*block)) % 64, 0u);
    std::memset(pool.data(*block), 0xAB, pool.block_bytes());
    EXPECT_EQ(pool.used_bytes(), 113'920u * static_cast<uint64_t>(i + 1));
  }
  EXPECT_FALSE(pool.take().has_value());
  ASSERT_EQ(places.size(), 10u);
  EXPECT_EQ(*places.rbegin() - *places.begin(), 9 * 113'920);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*places.begin()) % (2u << 20), 0u) << "huge pages";
}

TEST(BlockPool, TheLastReleaseFreesAndTheNextTakeSeesZeros) {
  BlockPool pool = make(640, 1280);
  const BlockId first = *pool.take();
  const BlockId second = *pool.take();
  std::memset(pool.data(first), 0xAB, 640);
  pool.share(first);
  EXPECT_EQ(pool.references(first), 2u);
  EXPECT_EQ(pool.blocks_shared(), 1u);
  pool.release(first);
  EXPECT_EQ(pool.blocks_shared(), 0u);
  EXPECT_FALSE(pool.take().has_value());
  pool.release(first);
  EXPECT_EQ(pool.blocks_free(), 1u);
  const auto again = pool.take();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*again, first);
  EXPECT_TRUE(is_zero(pool, *again));
  pool.release(second);
  pool.release(*again);
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(BlockPool, AnOddGeometryIsRoundedUpAndCounted) {
  BlockPool pool = make(100, 1280);
  EXPECT_EQ(pool.stride_bytes(), 128u);
  EXPECT_EQ(pool.blocks_total(), 10u);
  (void)pool.take();
  EXPECT_EQ(pool.used_bytes(), 128u);
}

TEST(BlockPool, AModelThatPagesNothingHasAnEmptyPool) {
  BlockPool pool = make(0, 1 << 20);
  EXPECT_EQ(pool.blocks_total(), 0u);
  EXPECT_FALSE(pool.take().has_value());
}

TEST(BlockPool, MoreThanTheMachineHasIsAnErrorThatNamesTheBytes) {
  const auto pool = BlockPool::create(1ULL << 40, 1ULL << 50);
  ASSERT_FALSE(pool.has_value());
  EXPECT_EQ(pool.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(pool.error().message, testing::HasSubstr("1,125,899,9"));
  const auto many = BlockPool::create(64, 1ULL << 62);
  ASSERT_FALSE(many.has_value());
  EXPECT_EQ(many.error().code, ErrorCode::kInvalidArgument);
}

TEST(BlockPool, TheCheckSeesLostAndForgottenReferences) {
  BlockPool pool = make(64, 256);
  const BlockId block = *pool.take();
  pool.share(block);
  EXPECT_TRUE(pool.check_references(std::array<uint32_t, 4>{2, 0, 0, 0}).has_value());
  EXPECT_FALSE(pool.check_references(std::array<uint32_t, 4>{1, 0, 0, 0}).has_value());
  EXPECT_FALSE(pool.check_references(std::array<uint32_t, 4>{2, 1, 0, 0}).has_value());
}

TEST(BlockPoolDeathTest, ReleasingAFreeBlockStops) {
  BlockPool pool = make(64, 256);
  const BlockId block = *pool.take();
  pool.release(block);
  EXPECT_DEATH(pool.release(block), "CHECK");
  EXPECT_DEATH(pool.share(block), "CHECK");
}

}  // namespace
}  // namespace thimble::cache
