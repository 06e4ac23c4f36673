#include "text/internal/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace thimble::text {
namespace {

constexpr char32_t kSymbolCount = 0x100 + 68;  // Highest symbol + 1.

struct Alphabet {
  std::array<char32_t, 256> symbol_of_byte{};
  std::array<int16_t, kSymbolCount> byte_of_symbol{};  // -1: not a symbol.
};

constexpr bool spells_itself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of_symbol.fill(-1);
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t symbol = spells_itself(byte) ? byte : next++;
    alphabet.symbol_of_byte[byte] = symbol;
    alphabet.byte_of_symbol[symbol] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
static_assert(kAlphabet.symbol_of_byte[' '] == U'Ġ' && kAlphabet.symbol_of_byte[173] == U'Ń');

}  // namespace

char32_t byte_symbol(uint8_t byte) { return kAlphabet.symbol_of_byte[byte]; }

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(byte_symbol(static_cast<uint8_t>(byte)), out);
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string out;
  out.reserve(spelling.size());
  while (!spelling.empty()) {
    const Utf8Step step = next_code_point(spelling);
    if (!step.valid || step.code_point >= kSymbolCount) return std::nullopt;
    const int16_t byte = kAlphabet.byte_of_symbol[step.code_point];
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    spelling.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace thimble::text
