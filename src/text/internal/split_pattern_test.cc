// Aim: the released patterns pass, and each construct on which regex engines disagree is refused.
#include "text/internal/split_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/testing.h"

namespace thimble::text {
namespace {

using testing::HasSubstr;

TEST(SplitPattern, ReleasedPatternsPass) {
  for (const std::string& pattern : released_patterns()) {
    EXPECT_TRUE(translate_split_pattern(pattern)) << pattern;
  }
}

TEST(SplitPattern, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_EQ(*translate_split_pattern(R"(\s+(?!\S)|[^\s\\s])"),
            R"(\p{White_Space}+(?!\P{White_Space})|[^\p{White_Space}\\s])");
}

TEST(SplitPattern, UnclearConstructsAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(\w+)", R"("\w")"},
      {R"(\bx)", R"("\b")"},
      {R"(a\h)", R"("\h")"},
      {R"((a)\1)", R"("\1")"},
      {R"(\p{Han})", R"(\p{Han})"},
      {R"(\pL)", R"(\p without)"},
      {R"(\C)", R"("\C")"},
      {R"(\K)", R"("\K")"},
      {"^a", R"("^")"},
      {"a$", R"("$")"},
      {"(?i:a)", R"("(?i")"},
      {"(?<=a)b", R"("(?<")"},
      {"(?R)", R"("(?R")"},
      {"(*UTF)a", R"("(*")"},
      {"[a[b]]", "[ inside a class"},
      {"[a&&b]", R"("&&")"},
      {"a{1,2}+", R"("}+")"},
      {"a\\", "a final"},
      {R"(\x41)", R"("\x")"},
      {"(?", R"("(?")"},
      {R"(\p{L)", R"(\p without)"},
  };
  for (const auto& [pattern, named] : cases) {
    const auto result = translate_split_pattern(pattern);
    ASSERT_FALSE(result) << pattern;
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported) << pattern;
    EXPECT_THAT(result.error().message, HasSubstr(named)) << pattern;
  }
}

TEST(SplitPattern, EmptyLongAndZeroAreRefused) {
  EXPECT_FALSE(translate_split_pattern(""));
  EXPECT_FALSE(translate_split_pattern(std::string(1 << 15, 'a')));
  EXPECT_FALSE(translate_split_pattern(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace thimble::text
