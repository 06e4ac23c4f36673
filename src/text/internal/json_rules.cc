#include "text/internal/json_rules.h"

#include <array>
#include <string_view>

#include "text/internal/call_markup.h"

namespace thimble::text {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

constexpr std::array<CharacterMove, 11> kFirstBytes{{{0x20, 0x21, 0},
                                                     {0x23, 0x5B, 0},
                                                     {0x5D, 0x7F, 0},
                                                     {0xC2, 0xDF, 1},
                                                     {0xE0, 0xE0, 4},
                                                     {0xE1, 0xEC, 2},
                                                     {0xED, 0xED, 5},
                                                     {0xEE, 0xEF, 2},
                                                     {0xF0, 0xF0, 6},
                                                     {0xF1, 0xF3, 3},
                                                     {0xF4, 0xF4, 7}}};
// States 1 to 7: one, two or three more bytes, then those where the next one is restricted.
constexpr std::array<CharacterMove, 7> kLaterBytes{{{0x80, 0xBF, 0},
                                                    {0x80, 0xBF, 1},
                                                    {0x80, 0xBF, 2},
                                                    {0xA0, 0xBF, 1},
                                                    {0x80, 0x9F, 1},
                                                    {0x90, 0xBF, 2},
                                                    {0x80, 0x8F, 2}}};

}  // namespace

std::span<const CharacterMove> character_moves(size_t state) {
  if (state == kBetweenCharacters) return kFirstBytes;
  return std::span(kLaterBytes).subspan(state - 1, 1);
}

JsonRules::Rule JsonRules::rule(const Key& key) {
  const auto known = rules_.find(key);
  if (known != rules_.end()) return known->second;
  const Rule made = builder_.declare(key.min, key.max);
  rules_.emplace(key, made);
  pending_.emplace_back(key, made);
  return made;
}

JsonRules::Rule JsonRules::space() { return rule({Kind::kSpace, 0, kIndentMax}); }
JsonRules::Rule JsonRules::string(uint32_t min, uint32_t max) {
  return rule({Kind::kString, min, max});
}
JsonRules::Rule JsonRules::number() { return rule({Kind::kNumber, 0, kIntegerDigitsMax}); }
JsonRules::Rule JsonRules::integer() { return rule({Kind::kInteger, 0, kIntegerDigitsMax}); }
JsonRules::Rule JsonRules::fraction() { return rule({Kind::kFraction, 0, kIntegerDigitsMax}); }
JsonRules::Rule JsonRules::nonzero_fraction() {
  return rule({Kind::kNonzeroFraction, 0, kIntegerDigitsMax - 1});
}
JsonRules::Rule JsonRules::exponent() { return rule({Kind::kExponent}); }
JsonRules::Rule JsonRules::text(uint32_t min, uint32_t max) {
  return rule({Kind::kText, min, max});
}
JsonRules::Rule JsonRules::any_but_string() { return rule({Kind::kNotString}); }
JsonRules::Rule JsonRules::any_value() { return rule({Kind::kValue}); }
JsonRules::Rule JsonRules::any_object() { return rule({Kind::kObject}); }
JsonRules::Rule JsonRules::any_array() { return rule({Kind::kArray}); }

void JsonRules::write_pending() {
  while (!pending_.empty()) {
    const auto [key, made] = pending_.back();
    pending_.pop_back();
    builder_.begin_rule(made);
    builder_.end_rule(body(key));
  }
}

JsonRules::At JsonRules::spaced(At next) {
  return builder_.split(next, builder_.call(space(), next));
}

JsonRules::At JsonRules::digit(At next) { return builder_.read({{'0', '9', next}}); }

JsonRules::At JsonRules::body(const Key& key) {
  GrammarBuilder& b = builder_;
  const At end = b.leave();
  switch (key.kind) {
    case Kind::kSpace: {
      const At loop = b.jump();
      const At more = b.split(end, b.below(kIndentMax, b.read(" \t", b.count(loop))));
      b.set_jump(loop, more);
      return b.read({{' ', ' ', end}, {'\n', '\n', more}});
    }
    case Kind::kString:
      return string_body(key.min, key.max);
    case Kind::kNumber: {
      const At power = b.split(end, b.call(exponent(), end));
      return integer_body(b.split(power, b.call(fraction(), power)));
    }
    case Kind::kInteger:
      return integer_body(end);
    case Kind::kFraction: {
      const At loop = b.jump();
      const At one = digit(b.count(loop));
      b.set_jump(loop, b.split(end, b.below(key.max, one)));
      return b.read(".", one);
    }
    case Kind::kNonzeroFraction: {
      const At tail = b.jump();
      b.set_jump(tail, b.split(end, b.below(key.max, digit(b.count(tail)))));
      const At zeros = b.jump();
      const At first = b.read({{'1', '9', b.count(tail)}, {'0', '0', b.count(zeros)}});
      // The last digit that may come is none of the zeros.
      const At last = b.read({{'1', '9', b.count(tail)}});
      b.set_jump(zeros, b.split(b.below(key.max, first), b.at_least(key.max, last)));
      return b.read(".", zeros);
    }
    case Kind::kExponent: {
      const At second = b.split(end, digit(end));
      const At first = digit(second);
      return b.read("eE", b.split(first, b.read("+-", first)));
    }
    case Kind::kText:
      return text_body(key.min, key.max);
    case Kind::kValue:
      return b.split(b.enter(string()), b.enter(any_but_string()));
    case Kind::kNotString: {
      const At words = b.literals({{"true", end}, {"false", end}, {"null", end}});
      return b.any_of({b.enter(number()), b.enter(any_object()), b.enter(any_array()), words});
    }
    case Kind::kObject:
      return object_body();
    case Kind::kArray:
      return array_body();
  }
  return end;
}

// The digits before the point; a zero stands alone.
JsonRules::At JsonRules::integer_body(At next) {
  GrammarBuilder& b = builder_;
  const At loop = b.jump();
  const At counted = b.count(loop);
  b.set_jump(loop, b.split(next, b.below(kIntegerDigitsMax, digit(counted))));
  const At digits = b.read({{'0', '0', next}, {'1', '9', counted}});
  return b.split(digits, b.read("-", digits));
}

// What follows a backslash.
JsonRules::At JsonRules::escape(At next) {
  GrammarBuilder& b = builder_;
  const At one = b.read(kHexDigits, next);
  const At two = b.read(kHexDigits, one);
  const At three = b.read(kHexDigits, two);
  // The second half of a surrogate pair, \uDC00 to \uDFFF.
  const At low = b.literal("\\u", b.read("dD", b.read("cdefCDEF", two)));
  const At high = b.read(kHexDigits, b.read(kHexDigits, low));
  const At d = b.read({{'0', '7', two}, {'8', '9', high}, {'a', 'b', high}, {'A', 'B', high}});
  const At unit = b.read({{'0', '9', three},
                          {'a', 'c', three},
                          {'A', 'C', three},
                          {'e', 'f', three},
                          {'E', 'F', three},
                          {'d', 'd', d},
                          {'D', 'D', d}});
  std::vector<ByteRange> ranges = {{'u', 'u', unit}};
  for (const char c : std::string_view("\"\\/bfnrt")) {
    ranges.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c), next});
  }
  return b.read(std::move(ranges));
}

std::vector<ByteRange> JsonRules::unescaped(At next) {
  std::array<At, kCharacterStates> at{next};  // each leads to one before it
  for (size_t state = 1; state < kCharacterStates; ++state) {
    const CharacterMove& move = character_moves(state)[0];
    at[state] = builder_.read({{move.low, move.high, at[move.to]}});
  }
  std::vector<ByteRange> ranges;
  for (const CharacterMove& move : character_moves(kBetweenCharacters)) {
    ranges.push_back({move.low, move.high, at[move.to]});
  }
  return ranges;
}

std::vector<ByteRange> JsonRules::characters(At next) {
  std::vector<ByteRange> ranges = unescaped(next);
  ranges.push_back({'\\', '\\', escape(next)});
  return ranges;
}

std::vector<ByteRange> JsonRules::plain_characters(At next) {
  std::vector<ByteRange> ranges = unescaped(next);
  ranges.insert(ranges.end(), {{'\\', '\\', next}, {'"', '"', next}, {0x00, 0x1F, next}});
  return ranges;
}

JsonRules::At JsonRules::string_body(uint32_t min, uint32_t max) {
  GrammarBuilder& b = builder_;
  const At end = b.leave();
  const At loop = b.jump();
  std::vector<ByteRange> ranges = characters(b.count(loop));
  if (min == 0 && max == kUncounted) {
    ranges.push_back({'"', '"', end});
    b.set_jump(loop, b.read(std::move(ranges)));
  } else {
    const At more = b.below(max, b.read(std::move(ranges)));
    b.set_jump(loop, b.split(more, b.at_least(min, b.read("\"", end))));
  }
  return b.read("\"", loop);
}

JsonRules::At JsonRules::text_body(uint32_t min, uint32_t max) {
  GrammarBuilder& b = builder_;
  const At close = b.literal(kParameterClose, b.leave());
  const At loop = b.jump();
  const At more = b.below(max, b.read(plain_characters(b.count(loop))));
  b.set_jump(loop, b.split(more, b.at_least(min, close)));
  return loop;
}

JsonRules::At JsonRules::object_body() {
  GrammarBuilder& b = builder_;
  const At close = b.read("}", b.leave());
  const At next = b.jump();
  const At value = b.call(any_value(), next);
  const At member = b.call(string(), b.read(":", spaced(value)));
  b.set_jump(next, b.split(spaced(close), b.read(",", spaced(member))));
  return b.read("{", spaced(b.split(close, member)));
}

JsonRules::At JsonRules::array_body() {
  GrammarBuilder& b = builder_;
  const At close = b.read("]", b.leave());
  const At next = b.jump();
  const At value = b.call(any_value(), next);
  b.set_jump(next, b.split(spaced(close), b.read(",", spaced(value))));
  return b.read("[", spaced(b.split(close, value)));
}

}  // namespace thimble::text
