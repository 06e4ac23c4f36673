// Aim: a prompt gets back what of it was computed, to the token, and never what was not; what is in
// use is never evicted; exhaustion evicts, then asks to wait, then refuses. Method: texts that part
// around every boundary, on the fake model of cache/testing.h; small pools filled on purpose.
#include "cache/paged_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cache/testing.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;
using testing::HasSubstr;

constexpr uint64_t kCuts[] = {0,   1,   2,   3,   63,  64,  126, 127, 128, 129, 130,
                              191, 254, 255, 256, 257, 258, 383, 384, 385, 399, 400};

TEST(PagedCache, TwoTextsShareWhatTheyHaveInCommonAndNoMore) {
  const FakeModel model;
  for (const uint64_t common : kCuts) {
    const auto cache = make_cache(model, small_pool(model, 20));
    run(*cache, model, text_ids(400));
    const std::vector<int32_t> other = text_ids(450, 1, common);
    const auto match = cache->match(identity(), other, Exactness::kExact);
    ASSERT_EQ(match->hit(), common);
    const auto sequence = cache->open(*match, {.hit = common, .tokens_max = 500});
    ASSERT_TRUE(sequence.has_value());
    EXPECT_EQ(violation(*cache), "");
    EXPECT_EQ(model.differences(**sequence), "");
    ASSERT_TRUE(model.append(**sequence, std::span(other).subspan(common)).has_value());
    EXPECT_EQ(model.differences(**sequence), "") << common;
    EXPECT_EQ(violation(*cache), "");
    EXPECT_EQ((*sequence)->rows_bytes(), model.layout().rows_bytes(450));
    EXPECT_EQ(cache->counters().rows_written_bytes, model.layout().rows_bytes(400) +
                                                        model.layout().rows_bytes(450) -
                                                        model.layout().rows_bytes(common))
        << "a pair that straddles the hit is written once, by the suffix";
  }
}

TEST(PagedCache, TheSamePromptHitsAllButItsLastToken) {
  const FakeModel model;
  for (uint64_t length = 1; length <= 300; ++length) {
    const auto cache = make_cache(model, small_pool(model, 10));
    run(*cache, model, text_ids(length));
    ASSERT_EQ(hit_of(*cache, text_ids(length)), length - 1);
    ASSERT_EQ(hit_of(*cache, text_ids(length + 1)), length);
    ASSERT_EQ(hit_of(*cache, text_ids(length + 200)), length);
  }
  const auto cache = make_cache(model, small_pool(model, 1));
  EXPECT_EQ(hit_of(*cache, {}), 0u);
}

TEST(PagedCache, AnyShorterHitCanBeAdopted) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 20));
  run(*cache, model, text_ids(401));
  for (uint64_t hit = 0; hit <= 401; ++hit) {
    const auto match = cache->match(identity(), text_ids(500), Exactness::kExact);
    ASSERT_EQ(match->hit(), 401u);
    const auto sequence = cache->open(*match, {.hit = hit, .tokens_max = 500});
    ASSERT_TRUE(sequence.has_value());
    ASSERT_EQ((*sequence)->length(), hit);
    ASSERT_EQ((*sequence)->hit(), hit);
    ASSERT_EQ(model.differences(**sequence), "") << hit;
    ASSERT_EQ((*sequence)->windows_complete(), hit == 0);
    const uint64_t from = hit > 8 ? hit - 8 : 0;
    model.replay(**sequence, from, hit);
    ASSERT_TRUE((*sequence)->windows_complete());
    ASSERT_EQ(model.differences(**sequence), "") << hit;
    EXPECT_EQ(violation(*cache), "");
  }
}

TEST(PagedCache, AnAbortedRequestLeavesItsCommittedTokens) {
  const FakeModel model;
  for (const uint64_t committed : kCuts) {
    const auto cache = make_cache(model, small_pool(model, 20));
    {
      const auto sequence = run(*cache, model, text_ids(committed));
      ASSERT_TRUE(sequence->reserve(committed + 50).has_value());
      model.write(*sequence, text_ids(50, 1));
    }
    EXPECT_EQ(violation(*cache), "");
    EXPECT_EQ(hit_of(*cache, text_ids(500)), committed);
    EXPECT_EQ(cache->counters().blocks_live, 0u);
    const auto match = cache->match(identity(), text_ids(500), Exactness::kExact);
    const auto again = cache->open(*match, {.hit = committed, .tokens_max = 500});
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(model.differences(**again), "") << committed;
  }
}

TEST(PagedCache, TenantsModelsAndNumericsDoNotMeet) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 20));
  run(*cache, model, text_ids(300), identity("a"));
  CacheIdentity other = identity("a");
  other.model[0] = std::byte{1};
  CacheIdentity newer = identity("a");
  newer.numerics_version = 7;
  EXPECT_EQ(hit_of(*cache, text_ids(300), identity("a")), 299u);
  EXPECT_EQ(hit_of(*cache, text_ids(300), identity("b")), 0u);
  EXPECT_EQ(hit_of(*cache, text_ids(300), identity("")), 0u);
  EXPECT_EQ(hit_of(*cache, text_ids(300), other), 0u);
  EXPECT_EQ(hit_of(*cache, text_ids(300), newer), 0u);
  EXPECT_EQ(violation(*cache), "");
}

TEST(PagedCache, ImagesAreToldApartByTheirContent) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 20));
  const std::vector<int32_t> ids = text_ids(300);
  ContentMark a{.position = 130};
  a.identity[0] = std::byte{1};
  ContentMark b = a;
  b.identity[0] = std::byte{2};
  const auto compute = [&](const ContentMark& mark) {
    const TokenView prompt(ids, {&mark, 1});
    const auto match = cache->match(identity(), prompt, Exactness::kExact);
    const uint64_t hit = match->hit();
    auto sequence = *cache->open(*match, {.hit = hit, .tokens_max = 300});
    EXPECT_TRUE(sequence->reserve(300).has_value());
    model.write(*sequence, std::span(ids).subspan(hit));
    const bool is_new = hit <= mark.position;
    sequence->commit(std::span(ids).subspan(hit), entries_completed(model.layout(), hit, 300),
                     {&mark, is_new ? 1u : 0u});
    return hit;
  };
  EXPECT_EQ(compute(a), 0u);
  EXPECT_EQ(compute(b), 130u);
  EXPECT_EQ(compute(a), 299u);
}

TEST(PagedCache, EvictsWhatWasUsedLeastRecentlyAndTailsFirst) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 6));
  run(*cache, model, text_ids(300, 1));  // blocks: full, full, tail
  run(*cache, model, text_ids(300, 2));
  (void)hit_of(*cache, text_ids(300, 1));  // used again
  const auto take = [&] {
    const auto sequence = run(*cache, model, text_ids(1, 9));
    return std::pair(hit_of(*cache, text_ids(301, 1)), hit_of(*cache, text_ids(301, 2)));
  };
  // Each look is a use as well, of 1 and then of 2: so 1 goes first from the second time on.
  EXPECT_EQ(take(), std::pair(uint64_t{300}, uint64_t{256}));
  EXPECT_EQ(cache->counters().blocks_evicted, 1u);
  EXPECT_EQ(violation(*cache), "");
}

TEST(PagedCache, EvictionTakesLeavesUntilNothingIsLeft) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 6));
  run(*cache, model, text_ids(300, 1));
  run(*cache, model, text_ids(300, 2));
  const auto sequence = *cache->open_empty(identity(), 1000);
  const uint64_t left[][2] = {{256, 300}, {128, 300}, {0, 300}, {0, 256}, {0, 128}, {0, 0}};
  const auto found = [&](uint64_t text) {
    // Looking would count as a use: ask in the order that keeps 1 older than 2.
    return hit_of(*cache, text_ids(301, text));
  };
  for (uint64_t blocks = 1; blocks <= 6; ++blocks) {
    ASSERT_TRUE(sequence->reserve(blocks * kBlockTokens).has_value());
    EXPECT_EQ(violation(*cache), "");
    EXPECT_EQ(found(1), left[blocks - 1][0]) << blocks;
    EXPECT_EQ(found(2), left[blocks - 1][1]) << blocks;
  }
}

TEST(PagedCache, WhatAMatchFoundIsNotEvicted) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 4));
  run(*cache, model, text_ids(300));
  auto match = cache->match(identity(), text_ids(300), Exactness::kExact);
  const auto sequence = *cache->open_empty(identity(), 1000);
  ASSERT_TRUE(sequence->reserve(128).has_value());
  const auto full = sequence->reserve(256);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(match->hit(), 299u);
  EXPECT_EQ(violation(*cache), "");
  match.reset();
  EXPECT_TRUE(sequence->reserve(256).has_value());
}

TEST(PagedCache, ExhaustionEvictsThenWaitsThenRefuses) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 4));
  run(*cache, model, text_ids(500, 3));
  auto a = run(*cache, model, text_ids(256, 1));  // evicts
  EXPECT_EQ(cache->counters().blocks_evicted, 2u);
  auto b = run(*cache, model, text_ids(256, 2));
  const auto waits = b->reserve(257);
  ASSERT_FALSE(waits.has_value());
  EXPECT_EQ(waits.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(waits.error().message, HasSubstr("0 of 4 are free and 2 sequences"));
  EXPECT_EQ(b->length(), 256u);
  const auto never = b->reserve(513);
  ASSERT_FALSE(never.has_value());
  EXPECT_EQ(never.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(never.error().message, HasSubstr(base::with_commas(5 * model.layout().block_bytes)));
  EXPECT_EQ(model.differences(*a), "");
  EXPECT_EQ(model.differences(*b), "");
  EXPECT_EQ(violation(*cache), "");
  a.reset();
  EXPECT_TRUE(b->reserve(512).has_value()) << "alone, a sequence may use the whole pool";
  EXPECT_EQ(violation(*cache), "");
}

TEST(PagedCache, NothingIsEvictedForWhatCannotFitAnyway) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 6));
  run(*cache, model, text_ids(256, 1));
  const auto a = run(*cache, model, text_ids(256, 2));
  const auto b = run(*cache, model, text_ids(1, 3));
  EXPECT_EQ(b->reserve(600).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(hit_of(*cache, text_ids(257, 1)), 256u);
  EXPECT_EQ(cache->counters().blocks_evicted, 0u);
}

TEST(PagedCache, ASequenceThatFillsThePoolCanStillBeRewound) {
  const FakeModel model;
  for (const uint64_t kept : {511u, 385u, 300u, 1u}) {
    const auto cache = make_cache(model, small_pool(model, 4));
    const auto sequence = run(*cache, model, text_ids(512));
    ASSERT_TRUE(sequence->rewind(kept).has_value()) << kept;
    EXPECT_EQ(sequence->length(), kept);
    EXPECT_EQ(model.differences(*sequence), "");
    EXPECT_EQ(violation(*cache), "");
  }
}

TEST(PagedCache, ARewindThatMustWaitKeepsTheSequenceSound) {
  const FakeModel model;
  const auto cache = make_cache(model, small_pool(model, 4));
  const auto a = run(*cache, model, text_ids(384, 1));
  auto b = *a->fork();
  const auto c = run(*cache, model, text_ids(1, 2));
  const auto waits = a->rewind(200);
  ASSERT_FALSE(waits.has_value());
  EXPECT_EQ(waits.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(a->length(), 256u) << "cut at the end of the block";
  EXPECT_EQ(violation(*cache), "");
  b.reset();
  ASSERT_TRUE(a->rewind(200).has_value());
  EXPECT_EQ(model.differences(*a), "");
  EXPECT_EQ(violation(*cache), "");
}

TEST(PagedCache, WhatAPrivateSequenceComputesIsNeverFound) {
  const FakeModel model;
  for (const uint64_t hit : kCuts) {
    const auto cache = make_cache(model, small_pool(model, 40));
    run(*cache, model, text_ids(400));
    {
      const auto match = cache->match(identity(), text_ids(600, 1, hit), Exactness::kExact);
      ASSERT_EQ(match->hit(), hit);
      const auto sequence = *cache->open(*match, {.hit = hit, .tokens_max = 700});
      sequence->mark_private();
      const std::vector<int32_t> text = text_ids(600, 1, hit);
      ASSERT_TRUE(model.append(*sequence, std::span(text).subspan(hit), 5).has_value());
      EXPECT_EQ(model.differences(*sequence, 5), "") << hit;
      EXPECT_EQ(violation(*cache), "");
      EXPECT_EQ(hit_of(*cache, text), hit);
      auto fork = *sequence->fork();
      ASSERT_TRUE(fork->rewind(hit + (600 - hit) / 2).has_value());
      EXPECT_EQ(model.differences(*fork, 5), "") << hit;
      ASSERT_TRUE(model.append(*fork, text_ids(200, 2), 5).has_value());
      EXPECT_EQ(model.differences(*fork, 5), "") << hit;
      EXPECT_EQ(model.differences(*sequence, 5), "") << hit;
      EXPECT_EQ(violation(*cache), "");
    }
    EXPECT_EQ(violation(*cache), "");
    EXPECT_EQ(hit_of(*cache, text_ids(600, 1, hit)), hit);
    const auto used = cache->counters();
    EXPECT_EQ(used.blocks_total - used.blocks_free, used.blocks_indexed) << "private blocks go";
  }
}

}  // namespace
}  // namespace thimble::cache
