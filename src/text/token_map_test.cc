// Aim: token texts fall into the classes of spec/engram-dspark-vision.md 2.3. Method: the golden
// keys made with another library; a vocabulary with tokens that must and must not meet.
// tests/tokenizer checks the whole released vocabulary, tests/golden the tiny one.
#include "text/token_map.h"

#include <gtest/gtest.h>

#include "text/testing.h"

namespace thimble::text {
namespace {

TEST(TokenMap, GoldenKeys) {
  const auto text = base::read_file(Path(THIMBLE_SOURCE_DIR) / "tests" / "golden" / "formats" /
                                    "engram_normalize.json");
  ASSERT_TRUE(text) << text.error().describe();
  const auto pairs = nlohmann::json::parse(*text)["pairs"];
  ASSERT_EQ(pairs.size(), 55U);
  for (const auto& pair : pairs) {
    const auto source = pair["text"].get<std::string>();
    EXPECT_EQ(*token_key(source), pair["key"].get<std::string>()) << source;
  }
}

TEST(TokenMap, MarksOfAllThreeKindsGo) {
  EXPECT_EQ(*token_key("e\u0301"), "e");            // Mn
  EXPECT_EQ(*token_key("\u0915\u093E"), "\u0915");  // Mc
  EXPECT_EQ(*token_key("a\u20DD"), "a");            // Me
}

TEST(TokenMap, ClassesByFirstAppearance) {
  SmallTokenizer small;
  small.merges = {{"\xC2", "\xA1"}, {" ", "a"}, {"A", "a"}, {" ", " "}};
  small.added = {"<x>", "<X>"};
  const Tokenizer tokenizer = small.make();
  const auto map = build_token_map(tokenizer);
  ASSERT_TRUE(map) << map.error().describe();
  ASSERT_EQ(map->class_of.size(), tokenizer.size());
  const auto class_of = [&](std::string_view spelling) {
    return map->class_of[static_cast<size_t>(*tokenizer.find(spelling))];
  };
  EXPECT_EQ(map->class_of[0], 0);
  EXPECT_EQ(class_of("a"), class_of("A"));
  EXPECT_EQ(class_of("a"), class_of("Ġa"));
  EXPECT_NE(class_of("a"), class_of("Aa"));
  EXPECT_EQ(class_of("ĠĠ"), class_of("Ċ"));
  EXPECT_EQ(class_of("<x>"), class_of("<X>"));
  // Byte A1 alone is malformed and goes by its spelling, which is the character U+00A1.
  EXPECT_EQ(class_of("¡"), class_of("Â¡"));
  EXPECT_NE(class_of("¡"), class_of("¢"));
  EXPECT_EQ(*std::max_element(map->class_of.begin(), map->class_of.end()) + 1, map->class_count);
}

}  // namespace
}  // namespace thimble::text
