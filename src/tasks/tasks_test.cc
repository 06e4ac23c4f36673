// Aim: the tasks ask what they say they ask, and the same seed asks the same.
// Method: answers are found again by plain search through the sample's own tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tasks/copy.h"
#include "tasks/needle.h"
#include "tasks/recall.h"

namespace thimble::tasks {
namespace {

TEST(Recall, EveryQueryHasItsValueBefore) {
  const RecallOptions options{.pairs = 12, .queries = 9, .keys = 40, .values = 5};
  const Sample s = make_recall(options, 7);
  ASSERT_EQ(s.tokens.size(), 33u);
  std::set<int32_t> asked;
  for (size_t i = 24; i < s.tokens.size(); ++i) {
    const auto key = std::find(s.tokens.begin(), s.tokens.begin() + 24, s.tokens[i]);
    ASSERT_NE(key, s.tokens.begin() + 24);
    EXPECT_EQ(s.answers[i], *(key + 1));
    EXPECT_GE(s.answers[i], 40);
    EXPECT_LT(s.answers[i], 45);
    asked.insert(s.tokens[i]);
  }
  EXPECT_EQ(asked.size(), 9u);
  EXPECT_EQ(std::count(s.answers.begin(), s.answers.begin() + 24, -1), 24);
  EXPECT_EQ(make_recall(options, 7).tokens, s.tokens);
  EXPECT_NE(make_recall(options, 8).tokens, s.tokens);
}

TEST(Needle, LiesAtItsDepth) {
  for (const double depth : {0.0, 0.3, 1.0}) {
    const NeedleOptions options{.tokens = 50, .depth = depth};
    const Sample s = make_needle(options, 3);
    ASSERT_EQ(s.tokens.size(), 50u);
    const auto mark = std::find(s.tokens.begin(), s.tokens.end(), kNeedleMark);
    EXPECT_EQ(mark - s.tokens.begin(), static_cast<std::ptrdiff_t>(depth * 47));
    EXPECT_EQ(s.tokens.back(), kNeedleQuestion);
    EXPECT_EQ(s.answers.back(), *(mark + 1));
  }
}

TEST(Copy, RepeatsAfterTheSeparator) {
  const Sample s = make_copy({.tokens = 10, .symbols = 4}, 1);
  ASSERT_EQ(s.tokens.size(), 21u);
  EXPECT_EQ(s.tokens[10], kCopySeparator);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(s.tokens[i], s.tokens[11 + i]);
    EXPECT_EQ(s.answers[10 + i], s.tokens[i]);
  }
}

}  // namespace
}  // namespace thimble::tasks
