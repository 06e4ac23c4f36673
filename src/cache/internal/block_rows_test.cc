// Aim: forgetting the entries after token n leaves the entries before it untouched and every other
// byte zero, in both formats and at every n. Method: blocks of non-zero fake rows; an erased block
// must equal one in which only the first n tokens were ever written.
#include "cache/internal/block_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "cache/testing.h"

namespace thimble::cache {
namespace {

using arch::CacheFormat;
using arch::kBlockTokens;

class BlockRowsFormats : public testing::TestWithParam<CacheFormat> {};
INSTANTIATE_TEST_SUITE_P(BlockRows, BlockRowsFormats,
                         testing::Values(CacheFormat::kPacked, CacheFormat::kFloat));

// The first block after `tokens` tokens.
std::vector<std::byte> block_of(const FakeModel& model, uint64_t tokens) {
  const auto cache = make_cache(model, small_pool(model, 1));
  CacheIdentity of = identity();
  of.format = model.layout().format;
  const auto sequence = run(*cache, model, text_ids(tokens), of);
  if (tokens == 0) return std::vector<std::byte>(model.layout().block_bytes);
  const std::byte* const bytes = sequence->rows().main[0].pages[0];
  return {bytes, bytes + model.layout().block_bytes};
}

TEST_P(BlockRowsFormats, ErasedAndCopiedBlocksHoldTheFirstTokensAlone) {
  const FakeModel model(small_config(), GetParam());
  const std::vector<std::byte> full = block_of(model, kBlockTokens);
  for (uint64_t tokens = 0; tokens <= kBlockTokens; ++tokens) {
    const std::vector<std::byte> expected = block_of(model, tokens);
    std::vector<std::byte> erased = full;
    EXPECT_EQ(is_erased(model.layout(), full.data(), tokens), tokens == kBlockTokens);
    erase_entries(model.layout(), erased.data(), tokens);
    ASSERT_EQ(erased, expected) << tokens;
    EXPECT_TRUE(is_erased(model.layout(), erased.data(), tokens));
    std::vector<std::byte> copy(full.size(), std::byte{0x55});
    copy_entries(model.layout(), full.data(), tokens, copy.data());
    ASSERT_EQ(copy, expected) << tokens;
  }
}

TEST(BlockRows, AnOddTokenAloneLeavesNoHalfEntry) {
  // 127 tokens: 63 entries at ratio 2, and 127 at ratio 1; the 64th pair is not complete.
  const FakeModel model;
  EXPECT_TRUE(is_erased(model.layout(), block_of(model, 127).data(), 127));
  EXPECT_FALSE(is_erased(model.layout(), block_of(model, 127).data(), 126));
}

}  // namespace
}  // namespace thimble::cache
