// Aim: two texts agree exactly as far as ids and marks do, and their order is one that a set can
// live by. Method: cases by hand; random pairs against a position-by-position walk.
#include "cache/tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/random.h"

namespace thimble::cache {
namespace {

ContentMark mark(uint64_t position, uint8_t identity) {
  ContentMark made{.position = position};
  made.identity[0] = std::byte{identity};
  return made;
}

TEST(Tokens, TwoImagesWithTheSameIdsAgreeUpToWhereTheyBegin) {
  const std::vector<int32_t> ids{1, 2, 9, 9, 9, 3};
  const std::vector<ContentMark> a{mark(2, 1)};
  const std::vector<ContentMark> b{mark(2, 2)};
  EXPECT_EQ(compare({ids, a}, {ids, b}).common, 2u);
  EXPECT_EQ(compare({ids, a}, {ids, a}).common, 6u);
  EXPECT_EQ(compare({ids, a}, ids).common, 2u) << "no image is not this image";
  EXPECT_TRUE(compare(ids, {ids, a}).order < 0);
  const TokenView first(ids, a);
  EXPECT_TRUE(compare(first.slice(0, 2), TokenView(ids, b).slice(0, 2)).order == 0);
  EXPECT_EQ(first.slice(0, 2).marks.size(), 0u);
  EXPECT_EQ(first.slice(2, 3).marks.size(), 1u);
  EXPECT_EQ(first.slice(3, 6).marks.size(), 0u);
}

TEST(Tokens, ALogRemembersAndForgets) {
  const std::vector<int32_t> ids{1, 2, 3, 4};
  const std::vector<ContentMark> marks{mark(11, 1), mark(13, 2)};
  TokenLog log(10);
  log.append({ids, marks, 10});
  EXPECT_EQ(log.end(), 14u);
  log.truncate(13);
  EXPECT_EQ(log.view().ids.size(), 3u);
  EXPECT_EQ(log.view().marks.size(), 1u);
  log.truncate(10);
  EXPECT_EQ(log.bytes(), 0u);
}

struct Text {
  std::vector<int32_t> ids;
  std::vector<ContentMark> marks;
  TokenView view() const { return {ids, marks}; }
};

Text random_text(base::SplitMix64& random) {
  Text text;
  const uint64_t size = random.below(6);
  for (uint64_t i = 0; i < size; ++i) {
    text.ids.push_back(static_cast<int32_t>(random.below(2)));
    if (random.below(4) == 0) text.marks.push_back(mark(i, static_cast<uint8_t>(random.below(2))));
  }
  return text;
}

// One symbol a position: id, then mark.
using Symbols = std::vector<std::pair<int32_t, std::optional<ContentMark>>>;
Symbols symbols(const Text& text) {
  Symbols made;
  for (size_t i = 0; i < text.ids.size(); ++i) {
    std::optional<ContentMark> its;
    for (const ContentMark& m : text.marks) {
      if (m.position == i) its = m;
    }
    made.emplace_back(text.ids[i], its);
  }
  return made;
}

TEST(Tokens, RandomPairsCompareAsStringsOfSymbols) {
  base::SplitMix64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const Text a = random_text(random);
    const Text b = random_text(random);
    const Symbols left = symbols(a);
    const Symbols right = symbols(b);
    const auto at = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
    const Comparison found = compare(a.view(), b.view());
    ASSERT_EQ(found.common, static_cast<uint64_t>(at.first - left.begin()));
    ASSERT_EQ(found.order < 0, left < right);
    ASSERT_EQ(found.order == 0, left == right);
  }
}

}  // namespace
}  // namespace thimble::cache
