// The byte alphabet of byte-level BPE files: every byte has one printable character.
//
// Printable Latin-1 bytes (33..126, 161..172, 174..255) are spelled by the character of the same
// number; the other 68 take U+0100, U+0101, ... in ascending order. A vocabulary file lists tokens
// in this spelling ("Ġthe" for " the"). Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thimble::text {

char32_t byte_symbol(uint8_t byte);

// Bytes to the spelling of a vocabulary file.
std::string spell_bytes(std::string_view bytes);

// The spelling back to bytes; nothing if a character lies outside the alphabet.
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace thimble::text
