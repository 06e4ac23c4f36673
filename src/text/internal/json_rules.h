// Rules for JSON's own values, each written once and shared by all who call it.
//
// Text is what any parser takes: whole UTF-8 characters, no lone surrogates, no control characters.
// Where space may stand, at most one blank does, or a line break with up to kIndentMax blanks
// after it. A number has at most kIntegerDigitsMax digits before its point, as many behind it, and
// two in its exponent, so that it fits a double, and a whole one fits 64 bits. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "text/internal/grammar_builder.h"

namespace thimble::text {

inline constexpr uint32_t kIndentMax = 32;
inline constexpr uint32_t kIntegerDigitsMax = 18;

// A string's bytes as they stand, without escapes and quotes: whole characters in UTF-8 (Unicode
// Standard, table 3-7). Between characters the state is kBetweenCharacters.
inline constexpr size_t kCharacterStates = 8;
inline constexpr size_t kBetweenCharacters = 0;
struct CharacterMove {
  uint8_t low;
  uint8_t high;
  uint8_t to;
};
std::span<const CharacterMove> character_moves(size_t state);

class JsonRules {
 public:
  using At = GrammarBuilder::At;
  using Rule = GrammarBuilder::Rule;

  // `builder` must outlive it.
  explicit JsonRules(GrammarBuilder& builder) : builder_(builder) {}

  // Declared on first use; bodies are written by write_pending().
  Rule space();
  Rule string(uint32_t min = 0, uint32_t max = kUncounted);  // lengths in characters
  Rule number();
  Rule integer();
  Rule fraction();  // ".5"
  Rule nonzero_fraction();
  Rule exponent();
  // A string as it stands between the tags of a call's parameter, and the tag that closes it.
  Rule text(uint32_t min = 0, uint32_t max = kUncounted);
  Rule any_value();
  Rule any_but_string();
  Rule any_object();
  Rule any_array();

  void write_pending();

  // Parts of the rule that is being written.
  At spaced(At next);  // space may stand here
  // Ranges of a first byte that make a character of a string, escaped or not, go on at `next`.
  std::vector<ByteRange> characters(At next);
  // The same of a character as it stands, any of them.
  std::vector<ByteRange> plain_characters(At next);
  At digit(At next);

 private:
  enum class Kind {
    kSpace,
    kString,
    kNumber,
    kInteger,
    kFraction,
    kNonzeroFraction,
    kExponent,
    kText,
    kValue,
    kNotString,
    kObject,
    kArray,
  };
  struct Key {
    Kind kind;
    uint32_t min = 0;
    uint32_t max = kUncounted;
    auto operator<=>(const Key&) const = default;
  };
  Rule rule(const Key& key);
  At body(const Key& key);
  std::vector<ByteRange> unescaped(At next);
  At string_body(uint32_t min, uint32_t max);
  At text_body(uint32_t min, uint32_t max);
  At escape(At next);
  At integer_body(At next);
  At object_body();
  At array_body();

  GrammarBuilder& builder_;
  std::map<Key, Rule> rules_;
  std::vector<std::pair<Key, Rule>> pending_;
};

}  // namespace thimble::text
