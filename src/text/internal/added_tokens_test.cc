// Aim: the leftmost, then longest token is found. Method: overlapping contents against a search
// that compares every token at every place.
#include "text/internal/added_tokens.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace thimble::text {
namespace {

std::optional<AddedTokenFinder::Match> naive(const std::vector<AddedToken>& tokens,
                                             std::string_view text, size_t from) {
  for (size_t begin = from; begin < text.size(); ++begin) {
    const AddedToken* best = nullptr;
    for (const AddedToken& token : tokens) {
      if (!text.substr(begin).starts_with(token.content)) continue;
      if (best == nullptr || token.content.size() > best->content.size()) best = &token;
    }
    if (best != nullptr)
      return AddedTokenFinder::Match{begin, begin + best->content.size(), best->id};
  }
  return std::nullopt;
}

TEST(AddedTokens, LongestOfThoseThatBeginFirst) {
  const AddedTokenFinder finder({{7, "<a"}, {8, "<a>"}, {9, "a>b"}, {10, "<"}});
  const auto match = finder.find("x<a>b", 0);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->begin, 1U);
  EXPECT_EQ(match->end, 4U);
  EXPECT_EQ(match->id, 8);
  EXPECT_EQ(finder.find("x<b", 0)->id, 10);
  EXPECT_FALSE(finder.find("x>b", 0));
  EXPECT_FALSE(finder.find("x<a>b", 4));
}

TEST(AddedTokens, ExactNeedsTheWholeContent) {
  const AddedTokenFinder finder({{7, "<a>"}, {8, "<a>b"}});
  EXPECT_EQ(finder.exact("<a>"), 7);
  EXPECT_EQ(finder.exact("<a>b"), 8);
  EXPECT_EQ(finder.exact("<a"), std::nullopt);
  EXPECT_EQ(finder.exact("<a>bc"), std::nullopt);
  EXPECT_EQ(finder.exact(""), std::nullopt);
}

TEST(AddedTokens, NoneAtAll) { EXPECT_FALSE(AddedTokenFinder({}).find("text", 0)); }

TEST(AddedTokens, EqualsTheNaiveSearch) {
  base::SplitMix64 random(5);
  const auto word = [&random](size_t longest) {
    std::string out;
    for (size_t i = 0; i < longest; ++i) out += static_cast<char>("ab\xEF\xBD"[random.below(4)]);
    return out;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<AddedToken> tokens;
    for (int i = 0; i < 6; ++i) {
      const std::string content = word(1 + random.below(5));
      const bool known = std::any_of(tokens.begin(), tokens.end(),
                                     [&](const AddedToken& t) { return t.content == content; });
      if (!known) tokens.push_back({i, content});
    }
    const AddedTokenFinder finder(tokens);
    const std::string text = word(30);
    for (size_t from = 0; from <= text.size(); ++from) {
      const auto expected = naive(tokens, text, from);
      const auto found = finder.find(text, from);
      ASSERT_EQ(found.has_value(), expected.has_value());
      if (!found) continue;
      EXPECT_EQ(found->begin, expected->begin);
      EXPECT_EQ(found->end, expected->end);
      EXPECT_EQ(found->id, expected->id);
    }
  }
}

}  // namespace
}  // namespace thimble::text
