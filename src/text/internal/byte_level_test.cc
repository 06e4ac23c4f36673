// Aim: the byte alphabet is the published one and has no hole. Method: known spellings, all bytes.
#include "text/internal/byte_level.h"

#include <gtest/gtest.h>

#include <set>

namespace thimble::text {
namespace {

TEST(ByteLevel, KnownSpellings) {
  EXPECT_EQ(spell_bytes(" the"), "Ġthe");
  EXPECT_EQ(spell_bytes("\n"), "Ċ");
  EXPECT_EQ(spell_bytes("é"), "Ã©");
  EXPECT_EQ(spell_bytes("你"), "ä½ł");
  EXPECT_EQ(byte_symbol(0xA1), U'¡');
  EXPECT_EQ(byte_symbol(0xAD), U'Ń');
}

TEST(ByteLevel, EveryByteHasItsOwnSymbolAndComesBack) {
  std::set<char32_t> symbols;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    symbols.insert(byte_symbol(static_cast<uint8_t>(byte)));
    EXPECT_EQ(unspell_bytes(spell_bytes(bytes)), bytes);
  }
  EXPECT_EQ(symbols.size(), 256U);
}

TEST(ByteLevel, OtherCharactersAreNotSpellings) {
  EXPECT_EQ(unspell_bytes("a b"), std::nullopt);     // Space is spelled Ġ.
  EXPECT_EQ(unspell_bytes("<｜"), std::nullopt);     // U+FF5C
  EXPECT_EQ(unspell_bytes("\xC3"), std::nullopt);    // Malformed.
  EXPECT_EQ(unspell_bytes("\u0144"), std::nullopt);  // First code point after the alphabet.
  EXPECT_EQ(unspell_bytes(""), "");
}

}  // namespace
}  // namespace thimble::text
