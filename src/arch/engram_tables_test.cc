// Aim: which rows each Engram lookup owns. Method: the published primes and offsets of the released
// model and of a tiny one (engram-dspark-vision spec sections 2.4 and 2.10).
#include "arch/engram_tables.h"

#include <gtest/gtest.h>

namespace thimble::arch {
namespace {

TEST(EngramTables, ReleasedPrimesAndOffsets) {
  const EngramConfig& engram = released_config().engram;
  const auto primes = engram_primes(engram);
  ASSERT_EQ(primes.size(), 2u);
  ASSERT_EQ(primes[0].size(), 24u);
  EXPECT_EQ(primes[0][0], 16'000'057u);
  EXPECT_EQ(primes[0][7], 16'000'183u);
  EXPECT_EQ(primes[0][8], 16'000'189u);
  EXPECT_EQ(primes[0][23], 16'000'463u);
  EXPECT_EQ(primes[1][0], 16'000'477u);
  EXPECT_EQ(primes[1][16], 16'000'781u);
  EXPECT_EQ(primes[1][23], 16'000'889u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(engram_rows(primes[i]), engram.num_embeddings[i]);
  const auto offsets = engram_row_offsets(primes[0]);
  EXPECT_EQ(offsets[0], 0u);
  EXPECT_EQ(offsets[1], 16'000'057u);
  EXPECT_EQ(offsets[23], 368'005'705u);
  EXPECT_EQ(engram_row_offsets(primes[1])[23], 368'015'793u);
}

TEST(EngramTables, TinyFixture) {
  EngramConfig engram;
  engram.layer_ids = {1, 14};
  engram.max_ngram_size = 4;
  engram.vocab_size = 11;
  engram.n_heads = 2;
  const std::vector<std::vector<uint64_t>> expected = {{11, 13, 17, 19, 23, 29},
                                                       {31, 37, 41, 43, 47, 53}};
  EXPECT_EQ(engram_primes(engram), expected);
}

TEST(EngramTables, FindsSmallPrimesAndNoComposites) {
  EngramConfig engram;
  engram.layer_ids = {0};
  engram.max_ngram_size = 9;
  engram.n_heads = 64;
  engram.vocab_size = 2;
  const auto primes = engram_primes(engram);
  uint64_t candidate = 1;
  for (const uint64_t prime : primes[0]) {
    bool composite = true;
    while (composite) {
      ++candidate;
      composite = false;
      for (uint64_t d = 2; d * d <= candidate; ++d) composite = composite || candidate % d == 0;
    }
    ASSERT_EQ(prime, candidate);
  }
}

}  // namespace
}  // namespace thimble::arch
