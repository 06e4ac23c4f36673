// Aim: malformed UTF-8 is cut into the parts the Unicode Standard names, and nothing else changes.
// Method: the standard's own example, every boundary of the ranges of table 3-7, every scalar
// value.
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace thimble::text {
namespace {

constexpr std::string_view kR = kReplacementUtf8;

std::string repeated(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += kR;
  return out;
}

TEST(Utf8, StandardsExampleOfMaximalSubparts) {
  // Unicode 15, table 3-11: 61 F1 80 80 E1 80 C2 62 80 63 80 BF 64.
  const std::string bytes =
      "a\xF1\x80\x80\xE1\x80\xC2"
      "b\x80"
      "c\x80\xBF"
      "d";
  EXPECT_EQ(to_valid_utf8(bytes), "a" + repeated(3) + "b" + repeated(1) + "c" + repeated(2) + "d");
}

TEST(Utf8, SurrogatesOverlongsAndBeyondAreOneMarkAByte) {
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), repeated(3));      // U+D800
  EXPECT_EQ(to_valid_utf8("\xC0\x80"), repeated(2));          // overlong
  EXPECT_EQ(to_valid_utf8("\xE0\x80\x80"), repeated(3));      // overlong
  EXPECT_EQ(to_valid_utf8("\xF0\x80\x80\x80"), repeated(4));  // overlong
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), repeated(4));  // beyond U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xF5\xFF"), repeated(2));
}

TEST(Utf8, TruncatedCharacterIsOneMark) {
  for (const std::string_view cut :
       {"\xC3", "\xE4", "\xE4\xBD", "\xF0", "\xF0\x9F", "\xF0\x9F\x99"}) {
    EXPECT_EQ(to_valid_utf8(cut), kR);
    const Utf8Step step = next_code_point(cut);
    EXPECT_FALSE(step.valid);
    EXPECT_TRUE(step.incomplete);
    EXPECT_EQ(step.bytes, cut.size());
  }
}

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(c, bytes);
    const Utf8Step step = next_code_point(bytes);
    ASSERT_TRUE(step.valid);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.bytes, bytes.size());
    ASSERT_TRUE(is_valid_utf8(bytes));
  }
}

TEST(Utf8, ValidTextIsUntouched) {
  const std::string text = "a\0é你🙂\uFFFD";
  EXPECT_EQ(to_valid_utf8(text), text);
}

}  // namespace
}  // namespace thimble::text
