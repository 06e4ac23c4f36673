// Aim: text is cut as spec/chat-format.md 1.1 says: later splits work on each piece of earlier
// ones, and what lies between matches stays a piece. Method: pieces written out by hand.
#include "text/internal/regex_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/testing.h"

namespace thimble::text {
namespace {

using testing::ElementsAre;

std::vector<std::string> pieces(const std::vector<std::string>& patterns, std::string_view text) {
  const auto splitter = RegexSplitter::compile(patterns);
  EXPECT_TRUE(splitter);
  RegexSplitter::Scratch scratch;
  std::vector<std::string> out;
  uint32_t begin = 0;
  for (const uint32_t end : splitter->split(text, scratch)) {
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return out;
}

std::vector<std::string> released(std::string_view text) {
  return pieces(released_patterns(), text);
}

TEST(RegexSplitter, DigitsByThreeFromTheLeft) {
  EXPECT_THAT(released("1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(released("a12 Ⅷ½x"), ElementsAre("a", "12", " ", "Ⅷ½", "x"));
}

TEST(RegexSplitter, PunctuationTakesTheLettersAfterIt) {
  EXPECT_THAT(released("don't stop_it"), ElementsAre("don", "'t", " stop", "_it"));
  EXPECT_THAT(released("a...b !\n\nc"), ElementsAre("a", "...", "b", " !\n\n", "c"));
}

TEST(RegexSplitter, WhiteSpaceLeavesOneForTheWord) {
  EXPECT_THAT(released("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(released("a \n b  "), ElementsAre("a", " \n", " b", "  "));
  EXPECT_THAT(released("a\u00A0b"), ElementsAre("a", "\u00A0b"));
}

TEST(RegexSplitter, LookAheadEndsAtThePiece) {
  // The digits were cut off before, so the spaces are at an end and stay together.
  EXPECT_THAT(released("a   1"), ElementsAre("a", "   ", "1"));
}

TEST(RegexSplitter, ChineseAndJapaneseRunsStandAlone) {
  EXPECT_THAT(released("x你好。タワーz"), ElementsAre("x", "你好", "。", "タワー", "z"));
}

TEST(RegexSplitter, MongolianVowelSeparatorIsNotWhiteSpace) {
  EXPECT_THAT(released("a \u180E b"), ElementsAre("a", " ", "\u180E", " b"));
}

TEST(RegexSplitter, NoPatternsAndNoText) {
  EXPECT_THAT(pieces({}, "any text"), ElementsAre("any text"));
  EXPECT_THAT(released(""), ElementsAre());
}

TEST(RegexSplitter, EmptyMatchesCutAndMoveOn) {
  EXPECT_THAT(pieces({"x*"}, "aéxxb"), ElementsAre("a", "é", "xx", "b"));
}

TEST(RegexSplitter, LongRunsAreNotALimit) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_THAT(released(spaces), ElementsAre(spaces));
  EXPECT_EQ(released(spaces + "x").size(), 2U);
  EXPECT_EQ(released(std::string(1 << 20, '\0')).size(), 1U);
}

TEST(RegexSplitter, RunawayPatternLeavesTheRestWhole) {
  const std::string text = std::string(40, 'a') + "b";
  EXPECT_THAT(pieces({"(a+)+c"}, text), ElementsAre(text));
}

TEST(RegexSplitter, BadRegexIsAnError) {
  const std::vector<std::string> patterns = {"a", "(b"};
  const auto splitter = RegexSplitter::compile(patterns);
  ASSERT_FALSE(splitter);
  EXPECT_THAT(splitter.error().message, testing::HasSubstr("regex \"(b\": missing closing"));
}

}  // namespace
}  // namespace thimble::text
