// UTF-8 as it is and as it should be: one code point at a time, validity, lossy conversion.
//
// Malformed input follows the Unicode Standard's "maximal subpart" practice (section 3.9, U+FFFD
// substitution): each longest prefix of a well-formed sequence that cannot be completed counts as
// one U+FFFD. Stateless; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thimble::text {

inline constexpr char32_t kReplacementChar = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

struct Utf8Step {
  char32_t code_point = kReplacementChar;
  uint8_t bytes = 1;   // Consumed: a whole character, or one maximal subpart of a malformed one.
  bool valid = false;  // A well-formed character (which may be U+FFFD itself).
  bool incomplete = false;  // Not valid, but more bytes at the end could make it so.
};

// First code point of `bytes`. REQUIRES: not empty.
Utf8Step next_code_point(std::string_view bytes);

// REQUIRES: a Unicode scalar value.
void append_utf8(char32_t code_point, std::string& out);

bool is_valid_utf8(std::string_view bytes);

// Same text with U+FFFD for each malformed part.
std::string to_valid_utf8(std::string_view bytes);

}  // namespace thimble::text
