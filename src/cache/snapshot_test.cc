// Aim: a snapshot resumes what it was taken of, at its position and one before, and is found by
// nobody else: not past its budget or time, not with a mark that the request does not accept, not
// once its block is gone. Method: the fake model of cache/testing.h, whose state and rows tell
// which text they belong to; a clock set by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cache/paged_cache.h"
#include "cache/testing.h"

namespace thimble::cache {
namespace {

class SnapshotTest : public testing::Test {
 protected:
  static constexpr int64_t kTtl = 1000;

  void make(uint64_t blocks, uint64_t snapshot_bytes) {
    PagedCacheOptions options = small_pool(model_, blocks);
    options.snapshot_bytes = snapshot_bytes;
    options.snapshot_ttl_us = kTtl;
    options.clock_us = [this] { return now_us_; };
    cache_ = make_cache(model_, options);
  }

  // Computes a text and takes a snapshot of it.
  void snapshot_of(std::span<const int32_t> ids) {
    const auto sequence = run(*cache_, model_, ids);
    const auto taken = sequence->take_snapshot(FakeModel::state(*sequence));
    ASSERT_TRUE(taken.has_value()) << taken.error().describe();
  }

  std::vector<uint64_t> positions(std::span<const int32_t> prompt,
                                  Exactness wanted = Exactness::kExact) {
    const auto match = cache_->match(identity(), prompt, wanted);
    std::vector<uint64_t> found;
    for (const SnapshotUse& use : match->snapshots()) found.push_back(use.position);
    return found;
  }

  // Opens at the best snapshot and compares everything with a fresh run.
  void expect_resumes(std::span<const int32_t> prompt, uint64_t position, Exactness wanted,
                      uint64_t taint = 0) {
    const auto match = cache_->match(identity(), prompt, wanted);
    ASSERT_FALSE(match->snapshots().empty());
    const SnapshotUse& use = match->snapshots()[0];
    ASSERT_EQ(use.position, position);
    EXPECT_TRUE(FakeModel::is_state(use.model, prompt, use));
    const auto opened =
        cache_->open(*match, {.hit = position, .snapshot = &use, .tokens_max = prompt.size() + 10});
    ASSERT_TRUE(opened.has_value());
    Sequence& sequence = **opened;
    EXPECT_TRUE(sequence.windows_complete());
    EXPECT_EQ(model_.differences(sequence, taint), "");
    EXPECT_EQ(violation(*cache_), "");
    ASSERT_TRUE(model_.append(sequence, prompt.subspan(position), taint).has_value());
    EXPECT_EQ(model_.differences(sequence, taint), "");
    EXPECT_EQ(violation(*cache_), "");
  }

  const FakeModel model_;
  int64_t now_us_ = 0;
  std::unique_ptr<PagedCache> cache_;
};

TEST_F(SnapshotTest, ResumesAtItsPositionAndOneBefore) {
  for (uint64_t position = 2; position <= 300; ++position) {
    make(10, 1 << 20);
    snapshot_of(text_ids(position));
    EXPECT_EQ(violation(*cache_), "");
    expect_resumes(text_ids(position + 1), position, Exactness::kExact);
    expect_resumes(text_ids(position), position - 1, Exactness::kExact);
    expect_resumes(text_ids(position + 40, 1, position), position, Exactness::kExact);
    expect_resumes(text_ids(position + 40, 1, position - 1), position - 1, Exactness::kExact);
    ASSERT_TRUE(positions(text_ids(position - 1)).empty());
    ASSERT_TRUE(positions(text_ids(position + 40, 2, position - 2)).empty());
  }
}

TEST_F(SnapshotTest, HoldsWindowsWithoutSlack) {
  for (const uint64_t position : {1u, 7u, 8u, 9u, 15u, 16u, 17u, 127u, 128u, 129u}) {
    make(10, 1 << 20);
    snapshot_of(text_ids(position));
    const uint64_t tokens = model_.layout().block_bytes > 0 ? position % 128 : position;
    EXPECT_EQ(
        cache_->counters().snapshot_bytes,
        8 * std::min<uint64_t>(position, 8) * model_.layout().window_row_bytes + 16 + tokens * 4);
  }
}

TEST_F(SnapshotTest, OneOfTheReleasedModelTakes2703360BytesOfWindows) {
  const arch::Config& config = arch::released_config();
  const arch::CacheLayout layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  const auto cache = *PagedCache::create(
      config, layout, {.pool_bytes = 4 * layout.block_bytes, .snapshot_bytes = 10 << 20});
  const auto sequence = *cache->open_empty(identity(), 300);
  ASSERT_TRUE(sequence->reserve(256).has_value());
  sequence->commit(text_ids(256), entries_completed(layout, 0, 256));
  ASSERT_TRUE(sequence->take_snapshot({}).has_value());
  EXPECT_EQ(cache->counters().snapshot_bytes, 2'703'360u);
}

TEST_F(SnapshotTest, ExtendsTheHitWhenTheTailIsGone) {
  make(3, 1 << 20);
  auto sequence = run(*cache_, model_, text_ids(200));
  ASSERT_TRUE(sequence->take_snapshot(FakeModel::state(*sequence)).has_value());
  ASSERT_TRUE(sequence->rewind(128).has_value());  // so that no tail is donated
  sequence.reset();
  EXPECT_EQ(hit_of(*cache_, text_ids(300)), 200u);
  expect_resumes(text_ids(201), 200, Exactness::kExact);
}

TEST_F(SnapshotTest, AHitBeyondTheSnapshotIsReplayedFromThere) {
  make(10, 1 << 20);
  const std::vector<int32_t> text = text_ids(260);
  const auto first = run(*cache_, model_, std::span(text).first(150));
  ASSERT_TRUE(first->take_snapshot(FakeModel::state(*first)).has_value());
  ASSERT_TRUE(model_.append(*first, std::span(text).subspan(150)).has_value());
  const auto match = cache_->match(identity(), text_ids(300), Exactness::kExact);
  EXPECT_EQ(match->hit(), 256u);
  ASSERT_EQ(match->snapshots().size(), 1u);
  const auto sequence =
      *cache_->open(*match, {.hit = 256, .snapshot = &match->snapshots()[0], .tokens_max = 300});
  EXPECT_EQ(sequence->length(), 256u);
  EXPECT_EQ(sequence->window_begin(), 142u);
  EXPECT_EQ(sequence->window_end(), 150u);
  EXPECT_FALSE(sequence->windows_complete());
  EXPECT_EQ(violation(*cache_), "");
  model_.replay(*sequence, 150, 256);
  EXPECT_TRUE(sequence->windows_complete());
  EXPECT_EQ(model_.differences(*sequence), "");
  EXPECT_EQ(violation(*cache_), "");
}

TEST_F(SnapshotTest, IncompleteWindowsAreRefused) {
  make(10, 1 << 20);
  run(*cache_, model_, text_ids(200));
  const auto match = cache_->match(identity(), text_ids(200), Exactness::kExact);
  const auto sequence = *cache_->open(*match, {.hit = 199, .tokens_max = 300});
  const auto refused = sequence->take_snapshot({});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  model_.replay(*sequence, 192, 199);
  EXPECT_FALSE(sequence->take_snapshot({}).has_value()) << "seven rows do, but not at 198";
  model_.replay(*sequence, 191, 199);
  EXPECT_TRUE(sequence->take_snapshot({}).has_value());
}

TEST_F(SnapshotTest, TheOldestIsRecycledAndALargeOneRefused) {
  make(10, 0);
  const auto sequence = run(*cache_, model_, text_ids(20));
  const auto refused = sequence->take_snapshot({});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(cache_->counters().snapshots_refused, 1u);
}

TEST_F(SnapshotTest, TheBudgetHoldsAndTheLeastRecentlyUsedGoes) {
  const uint64_t one = 8 * 8 * uint64_t{model_.layout().window_row_bytes} + 16 + 20 * 4;
  make(20, 2 * one);
  snapshot_of(text_ids(20, 1));
  now_us_ = 1;
  snapshot_of(text_ids(20, 2));
  now_us_ = 2;
  expect_resumes(text_ids(21, 1), 20, Exactness::kExact);  // a use
  snapshot_of(text_ids(20, 3));
  EXPECT_EQ(violation(*cache_), "");
  EXPECT_EQ(cache_->counters().snapshot_bytes, 2 * one);
  EXPECT_EQ(cache_->counters().snapshots_recycled, 1u);
  EXPECT_EQ(positions(text_ids(21, 2)).size(), 0u);
  EXPECT_EQ(positions(text_ids(21, 1)).size(), 1u);
  // What a match holds is not recycled.
  const auto held = cache_->match(identity(), text_ids(21, 1), Exactness::kExact);
  const auto also_held = cache_->match(identity(), text_ids(21, 3), Exactness::kExact);
  const auto sequence = run(*cache_, model_, text_ids(20, 4));
  EXPECT_EQ(sequence->take_snapshot(FakeModel::state(*sequence)).error().code,
            ErrorCode::kUnavailable);
  EXPECT_EQ(held->snapshots().size(), 1u);
  EXPECT_EQ(violation(*cache_), "");
}

TEST_F(SnapshotTest, TimeRunsFromTheLastUse) {
  make(20, 1 << 20);
  snapshot_of(text_ids(200, 1));
  snapshot_of(text_ids(200, 2));
  now_us_ = kTtl - 1;
  expect_resumes(text_ids(201, 1), 200, Exactness::kExact);
  now_us_ = kTtl;
  EXPECT_EQ(positions(text_ids(201, 1)).size(), 1u);
  EXPECT_EQ(positions(text_ids(201, 2)).size(), 0u);
  EXPECT_EQ(cache_->counters().snapshots_expired, 1u);
  EXPECT_EQ(hit_of(*cache_, text_ids(201, 2)), 200u) << "blocks have no time to live";
  now_us_ = 2 * kTtl;
  cache_->drop_expired();
  EXPECT_EQ(cache_->counters().snapshot_count, 0u);
  EXPECT_EQ(cache_->counters().snapshot_bytes, 0u);
  EXPECT_EQ(violation(*cache_), "");
}

TEST_F(SnapshotTest, GoesWithItsBlock) {
  make(4, 1 << 20);
  snapshot_of(text_ids(128, 1));
  EXPECT_EQ(cache_->counters().snapshot_count, 1u);
  const auto sequence = run(*cache_, model_, text_ids(512, 2));
  EXPECT_EQ(cache_->counters().snapshot_count, 0u);
  EXPECT_EQ(violation(*cache_), "");
}

TEST_F(SnapshotTest, BlocksOfSnapshotsMakeRoomAfterTheIndex) {
  make(4, 1 << 20);
  auto first = run(*cache_, model_, text_ids(100, 1));  // hangs at the root, with a copy
  ASSERT_TRUE(first->take_snapshot(FakeModel::state(*first)).has_value());
  first.reset();
  EXPECT_EQ(cache_->counters().blocks_free, 2u);
  const auto sequence = *cache_->open_empty(identity(), 1000);
  ASSERT_TRUE(sequence->reserve(384).has_value());
  EXPECT_EQ(cache_->counters().snapshot_count, 1u);
  ASSERT_TRUE(sequence->reserve(512).has_value());
  EXPECT_EQ(cache_->counters().snapshot_count, 0u);
  EXPECT_EQ(violation(*cache_), "");
}

TEST_F(SnapshotTest, TakenAgainItIsKeptOrBecomesMoreExact) {
  make(10, 1 << 20);
  const auto sequence = run(*cache_, model_, text_ids(150));
  const std::vector<std::byte> state = FakeModel::state(*sequence);
  sequence->mark_decoder_bounded();
  ASSERT_TRUE(sequence->take_snapshot(state).has_value());
  EXPECT_TRUE(positions(text_ids(151)).empty());
  EXPECT_EQ(positions(text_ids(151), Exactness::kEncoderExact).size(), 1u);
  sequence->mark_decoder_exact();
  ASSERT_TRUE(sequence->take_snapshot(state).has_value());
  EXPECT_EQ(cache_->counters().snapshot_count, 1u);
  EXPECT_EQ(positions(text_ids(151)).size(), 1u);
  sequence->mark_decoder_bounded();
  ASSERT_TRUE(sequence->take_snapshot(state).has_value());
  EXPECT_EQ(cache_->counters().snapshot_count, 1u);
  EXPECT_EQ(positions(text_ids(151)).size(), 1u);
}

TEST_F(SnapshotTest, AMarkedOneIsFoundOnlyByWhoAsks) {
  for (const uint64_t hit : {0u, 1u, 100u, 127u, 128u, 129u, 200u, 256u}) {
    for (const uint64_t position : {257u, 300u, 384u, 385u}) {
      make(40, 1 << 20);
      run(*cache_, model_, text_ids(256));
      const std::vector<int32_t> text = text_ids(500, 1, hit);
      {
        const auto match = cache_->match(identity(), text, Exactness::kExact);
        const auto sequence = *cache_->open(*match, {.hit = hit, .tokens_max = 600});
        model_.replay(*sequence, hit > 8 ? hit - 8 : 0, hit);
        sequence->mark_private();
        ASSERT_TRUE(
            model_.append(*sequence, std::span(text).subspan(hit, position - hit), 9).has_value());
        ASSERT_TRUE(sequence->take_snapshot(FakeModel::state(*sequence)).has_value());
        ASSERT_TRUE(model_.append(*sequence, std::span(text).subspan(position), 9).has_value());
        EXPECT_EQ(violation(*cache_), "");
      }
      EXPECT_TRUE(positions(text).empty());
      EXPECT_TRUE(positions(text, Exactness::kEncoderExact).empty());
      EXPECT_EQ(hit_of(*cache_, text), hit);
      EXPECT_EQ(cache_->match(identity(), text, Exactness::kAny)->hit(), hit);
      expect_resumes(text, position, Exactness::kAny, 9);
      expect_resumes(text_ids(position, 1, hit), position - 1, Exactness::kAny, 9);
      // The same text computed exactly is another thing, and does not mix with it.
      run(*cache_, model_, text);
      EXPECT_EQ(hit_of(*cache_, text), 499u);
      expect_resumes(text, position, Exactness::kAny, 9);
      EXPECT_EQ(hit_of(*cache_, text), 499u);
    }
  }
}

TEST_F(SnapshotTest, TheFurthestComesFirstThenTheMostExact) {
  make(20, 1 << 20);
  const std::vector<int32_t> text = text_ids(300);
  const auto sequence = *cache_->open_empty(identity(), 400);
  for (const uint64_t position : {50u, 130u, 131u, 290u}) {
    const uint64_t from = sequence->length();
    ASSERT_TRUE(
        model_.append(*sequence, std::span(text).subspan(from, position - from)).has_value());
    ASSERT_TRUE(sequence->take_snapshot(FakeModel::state(*sequence)).has_value());
  }
  EXPECT_EQ(positions(text), (std::vector<uint64_t>{290, 131, 130, 50}));
  EXPECT_EQ(positions(text_ids(131)), (std::vector<uint64_t>{130, 130, 50}));
}

}  // namespace
}  // namespace thimble::cache
