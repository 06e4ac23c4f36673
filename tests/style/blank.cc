#include <cctype>

#include "tests/style/source_file.h"

namespace thimble::style {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Walks C++ text once and copies it, with spaces where a comment or a literal's inside stood.
class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text), out_(text) {}

  std::string run() {
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  void step() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      blank_until_line_end();
    } else if (rest.starts_with("/*")) {
      const size_t end = text_.find("*/", at_ + 2);
      blank_to(end == std::string_view::npos ? text_.size() : end + 2);
    } else if (rest.starts_with("R\"") && (at_ == 0 || !is_word(text_[at_ - 1]))) {
      raw_string();
    } else if (rest[0] == '"' || (rest[0] == '\'' && !is_digit_separator())) {
      quoted(rest[0]);
    } else {
      ++at_;
    }
  }

  // 1'000: the word before the apostrophe starts with a digit.
  bool is_digit_separator() const {
    size_t begin = at_;
    while (begin > 0 && (is_word(text_[begin - 1]) || text_[begin - 1] == '\'')) --begin;
    return begin < at_ && std::isdigit(static_cast<unsigned char>(text_[begin])) != 0;
  }

  void blank_until_line_end() {
    const size_t end = text_.find('\n', at_);
    blank_to(end == std::string_view::npos ? text_.size() : end);
  }

  void quoted(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    ++at_;
    blank_to(std::min(end, text_.size()));
    at_ = std::min(at_ + 1, text_.size());
  }

  void raw_string() {
    const size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) {
      ++at_;
      return;
    }
    const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    const size_t end = text_.find(close, open);
    at_ += 2;
    blank_to(end == std::string_view::npos ? text_.size() : end + close.size() - 1);
    at_ = std::min(at_ + 1, text_.size());
  }

  void blank_to(size_t end) {
    for (; at_ < end; ++at_) {
      if (text_[at_] != '\n') out_[at_] = ' ';
    }
  }

  std::string_view text_;
  std::string out_;
  size_t at_ = 0;
};

}  // namespace

std::string blank_comments_and_literals(std::string_view text) { return Blanker(text).run(); }

}  // namespace thimble::style
