#include "text/json_text.h"

#include <utility>

#include "text/utf8.h"

namespace thimble::text {
namespace {

using base::fail;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Walks over one value and writes it to `out` as it goes.
class Scanner {
 public:
  explicit Scanner(std::string_view json) : json_(json) {}

  Result<void> value(std::string& out, uint32_t depth = 0) {
    if (depth > kJsonTextDepthMax) return wrong("no deeper nesting");
    space();
    switch (peek()) {
      case '{':
        return object(out, depth);
      case '[':
        return array(out, depth);
      case '"': {
        std::string text;
        THIMBLE_TRY(string(text));
        out += json_quoted(text);
        return {};
      }
      case 't':
        return word("true", out);
      case 'f':
        return word("false", out);
      case 'n':
        return word("null", out);
      default:
        return number(out);
    }
  }

  // The text of a string.
  Result<void> string(std::string& text) {
    THIMBLE_TRY(take('"'));
    while (peek() != '"') {
      if (at_ == json_.size()) return wrong("a closing quote");
      const char c = json_[at_++];
      if (static_cast<unsigned char>(c) < 0x20) return wrong("no control character in a string");
      if (c == '\\') {
        THIMBLE_TRY(escape(text));
      } else {
        text += c;
      }
    }
    ++at_;
    return {};
  }

  void space() {
    while (at_ < json_.size() && std::string_view(" \t\r\n").find(json_[at_]) != json_.npos) ++at_;
  }
  char peek() const { return at_ < json_.size() ? json_[at_] : '\0'; }
  size_t at() const { return at_; }
  bool take_if(char c) {
    if (at_ == json_.size() || json_[at_] != c) return false;
    ++at_;
    return true;
  }
  Result<void> take(char c) {
    if (take_if(c)) return {};
    return wrong(fmt::format("'{}'", c));
  }
  Result<void> end() {
    space();
    if (at_ == json_.size()) return {};
    return wrong("the end");
  }

 private:
  Result<void> wrong(std::string_view expected) const {
    return fail(ErrorCode::kInvalidArgument, "JSON: expected {} at byte {} of {}", expected, at_,
                json_.size());
  }

  Result<void> object(std::string& out, uint32_t depth) {
    ++at_;
    out += '{';
    space();
    for (bool first = true; !(first && peek() == '}'); first = false) {
      if (!first) out += ", ";
      space();
      std::string key;
      THIMBLE_TRY(string(key));
      out += json_quoted(key) + ": ";
      space();
      THIMBLE_TRY(take(':'));
      THIMBLE_TRY(value(out, depth + 1));
      space();
      if (!take_if(',')) break;
    }
    THIMBLE_TRY(take('}'));
    out += '}';
    return {};
  }

  Result<void> array(std::string& out, uint32_t depth) {
    ++at_;
    out += '[';
    space();
    for (bool first = true; !(first && peek() == ']'); first = false) {
      if (!first) out += ", ";
      THIMBLE_TRY(value(out, depth + 1));
      space();
      if (!take_if(',')) break;
    }
    THIMBLE_TRY(take(']'));
    out += ']';
    return {};
  }

  Result<void> word(std::string_view expected, std::string& out) {
    if (!json_.substr(at_).starts_with(expected)) return wrong(expected);
    at_ += expected.size();
    out += expected;
    return {};
  }

  Result<void> digits() {
    if (!is_digit(peek())) return wrong("a digit");
    while (is_digit(peek())) ++at_;
    return {};
  }

  Result<void> number(std::string& out) {
    const size_t begin = at_;
    if (!is_digit(peek()) && peek() != '-') return wrong("a value");
    take_if('-');
    if (!take_if('0')) THIMBLE_TRY(digits());
    if (take_if('.')) THIMBLE_TRY(digits());
    if (take_if('e') || take_if('E')) {
      if (!take_if('+')) take_if('-');
      THIMBLE_TRY(digits());
    }
    out += json_.substr(begin, at_ - begin);
    return {};
  }

  Result<uint32_t> four_hex_digits() {
    uint32_t unit = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = hex_digit(peek());
      if (digit < 0) return tl::unexpected(wrong("four hexadecimal digits").error());
      unit = unit * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    return unit;
  }

  Result<void> unicode_escape(std::string& text) {
    uint32_t unit = THIMBLE_TRY(four_hex_digits());
    if (unit >= 0xD800 && unit < 0xDC00 && json_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      const uint32_t low = THIMBLE_TRY(four_hex_digits());
      if (low < 0xDC00 || low > 0xDFFF) return wrong("the second half of a surrogate pair");
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    } else if (unit >= 0xD800 && unit <= 0xDFFF) {
      return wrong("a whole surrogate pair");
    }
    append_utf8(unit, text);
    return {};
  }

  Result<void> escape(std::string& text) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (take_if('u')) return unicode_escape(text);
    const size_t which = at_ < json_.size() ? kNames.find(json_[at_]) : kNames.npos;
    if (which == kNames.npos) return wrong("an escape");
    ++at_;
    text += kMeanings[which];
    return {};
  }

  std::string_view json_;
  size_t at_ = 0;
};

Result<void> check_utf8(std::string_view json) {
  if (is_valid_utf8(json)) return {};
  return fail(ErrorCode::kInvalidArgument, "JSON: {} bytes that are not valid UTF-8", json.size());
}

// One value where the scanner stands, as it is spelled.
Result<std::string_view> slice(std::string_view json, Scanner& scanner) {
  scanner.space();
  const size_t begin = scanner.at();
  std::string printed;
  THIMBLE_TRY(scanner.value(printed, 1));
  return json.substr(begin, scanner.at() - begin);
}

}  // namespace

Result<std::vector<JsonMember>> json_members(std::string_view json) {
  THIMBLE_TRY(check_utf8(json));
  Scanner scanner(json);
  std::vector<JsonMember> members;
  scanner.space();
  THIMBLE_TRY(scanner.take('{'));
  scanner.space();
  for (bool more = scanner.peek() != '}'; more; more = scanner.take_if(',')) {
    scanner.space();
    JsonMember member;
    THIMBLE_TRY(scanner.string(member.key));
    scanner.space();
    THIMBLE_TRY(scanner.take(':'));
    member.value = THIMBLE_TRY(slice(json, scanner));
    members.push_back(std::move(member));
    scanner.space();
  }
  THIMBLE_TRY(scanner.take('}'));
  THIMBLE_TRY(scanner.end());
  return members;
}

Result<std::vector<std::string_view>> json_elements(std::string_view json) {
  THIMBLE_TRY(check_utf8(json));
  Scanner scanner(json);
  std::vector<std::string_view> elements;
  scanner.space();
  THIMBLE_TRY(scanner.take('['));
  scanner.space();
  for (bool more = scanner.peek() != ']'; more; more = scanner.take_if(',')) {
    elements.push_back(THIMBLE_TRY(slice(json, scanner)));
    scanner.space();
  }
  THIMBLE_TRY(scanner.take(']'));
  THIMBLE_TRY(scanner.end());
  return elements;
}

Result<std::string> json_string_value(std::string_view json) {
  THIMBLE_TRY(check_utf8(json));
  Scanner scanner(json);
  std::string text;
  scanner.space();
  THIMBLE_TRY(scanner.string(text));
  THIMBLE_TRY(scanner.end());
  return text;
}

Result<std::string> python_json(std::string_view json) {
  THIMBLE_TRY(check_utf8(json));
  Scanner scanner(json);
  std::string out;
  THIMBLE_TRY(scanner.value(out));
  THIMBLE_TRY(scanner.end());
  return out;
}

void append_json_escaped(std::string_view text, std::string& out) {
  constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  for (const char c : text) {
    if (const size_t which = kNamed.find(c); which != kNamed.npos) {
      out += '\\';
      out += kNames[which];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(text, out);
  return out + '"';
}

}  // namespace thimble::text
