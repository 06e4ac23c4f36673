#include "text/internal/split_pattern.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace thimble::text {
namespace {

constexpr size_t kPatternBytesMax = 1 << 14;

// One- and two-letter general categories (Unicode Standard, table 4-4).
constexpr std::array<std::string_view, 37> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
    "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cs", "Co", "Cn"};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      if (auto done = step(); !done) return tl::unexpected(std::move(done).error());
    }
    return std::move(out_);
  }

 private:
  Result<void> step() {
    const char c = pattern_[at_];
    if (c == '\\') return escape();
    if (in_class_) return inside_class(c);
    switch (c) {
      case '[':
        in_class_ = true;
        copy(1);
        if (rest().starts_with('^')) copy(1);
        return {};
      case '(':
        return open_group();
      case '^':
      case '$':
        return refuse(pattern_.substr(at_, 1));
      case '}':
        copy(1);
        if (rest().starts_with('+')) return refuse("}+");
        return {};
      default:
        copy(1);
        return {};
    }
  }

  Result<void> inside_class(char c) {
    if (c == '[') return refuse("[ inside a class");
    if (rest().starts_with("&&")) return refuse("&&");
    if (c == ']') in_class_ = false;
    copy(1);
    return {};
  }

  Result<void> open_group() {
    if (rest().starts_with("(*")) return refuse("(*");
    if (!rest().starts_with("(?")) {
      copy(1);
      return {};
    }
    for (const std::string_view known : {"(?:", "(?=", "(?!"}) {
      if (rest().starts_with(known)) {
        copy(known.size());
        return {};
      }
    }
    return refuse(rest().substr(0, 3));
  }

  Result<void> escape() {
    if (at_ + 1 == pattern_.size()) return refuse("a final \\");
    const char c = pattern_[at_ + 1];
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      at_ += 2;
      return {};
    }
    if (c == 'p' || c == 'P') return property();
    const bool letter_or_digit = std::isalnum(static_cast<unsigned char>(c)) != 0;
    const bool known = std::string_view("rntdD").find(c) != std::string_view::npos;
    if (letter_or_digit && !known) return refuse(rest().substr(0, 2));
    copy(2);
    return {};
  }

  Result<void> property() {
    const size_t close = rest().find('}');
    if (rest().size() < 4 || rest()[2] != '{' || close == std::string_view::npos) {
      return refuse("\\p without {...}");
    }
    const std::string_view name = rest().substr(3, close - 3);
    if (std::find(kCategories.begin(), kCategories.end(), name) == kCategories.end()) {
      return refuse(rest().substr(0, close + 1));
    }
    copy(close + 1);
    return {};
  }

  tl::unexpected<Error> refuse(std::string_view construct) const {
    return base::fail(ErrorCode::kUnsupported,
                      "regex: \"{}\" at byte {} is not supported (engines disagree about it)",
                      construct, at_);
  }

  std::string_view rest() const { return pattern_.substr(at_); }

  void copy(size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> translate_split_pattern(std::string_view pattern) {
  if (pattern.empty()) return base::fail(ErrorCode::kCorrupt, "regex: empty");
  if (pattern.size() > kPatternBytesMax) {
    return base::fail(ErrorCode::kUnsupported, "regex: {} bytes, more than {}", pattern.size(),
                      kPatternBytesMax);
  }
  if (pattern.find('\0') != std::string_view::npos) {
    return base::fail(ErrorCode::kUnsupported, "regex: contains a zero byte");
  }
  return Translator(pattern).run();
}

}  // namespace thimble::text
