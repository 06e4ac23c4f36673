#include "tests/style/functions.h"

#include <algorithm>
#include <cctype>

namespace thimble::style {
namespace {

enum class Scope { kTransparent, kFunction, kOpaque, kInitialiser };

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Preprocessor lines with their continuations become spaces, and so does what stands between #else
// or #elif and #endif: two alternatives must not count their braces twice.
std::string without_directives(const std::vector<std::string>& lines) {
  std::string out;
  bool continued = false;
  std::vector<bool> skipping;  // for each open #if: are we in a later branch?
  for (const std::string& line : lines) {
    const size_t first = line.find_first_not_of(' ');
    const bool directive = first != std::string::npos && line[first] == '#' && !continued;
    if (directive) {
      const std::string_view word = std::string_view(line).substr(first + 1);
      if (word.starts_with("if")) skipping.push_back(false);
      if (word.starts_with("el") && !skipping.empty()) skipping.back() = true;
      if (word.starts_with("endif") && !skipping.empty()) skipping.pop_back();
    }
    const bool skipped = std::find(skipping.begin(), skipping.end(), true) != skipping.end();
    out += directive || continued || skipped ? std::string(line.size(), ' ') : line;
    out += '\n';
    continued = (directive || continued) && line.ends_with('\\');
  }
  return out;
}

// `open` is the place of a bracket; the place behind its partner.
size_t behind_bracket(std::string_view text, size_t open, char opening, char closing) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == opening) ++depth;
    if (text[i] == closing && --depth == 0) return i + 1;
  }
  return text.size();
}

void erase_groups(std::string& head, std::string_view opening, char open, char close) {
  for (size_t at = head.find(opening); at != std::string::npos; at = head.find(opening)) {
    const size_t bracket = at + opening.size() - 1;
    head.erase(at, behind_bracket(head, bracket, open, close) - at);
  }
}

std::string_view first_word(std::string_view head) {
  size_t end = 0;
  while (end < head.size() && is_word(head[end])) ++end;
  return head.substr(0, end);
}

void trim_front(std::string& text) {
  size_t count = 0;
  while (count < text.size() && is_space(text[count])) ++count;
  text.erase(0, count);
}

// What stands before a brace, without template lists and attributes.
std::string simplify(std::string_view head) {
  std::string out(head);
  for (const std::string_view group : {"__attribute__(", "alignas(", "decltype(", "requires("}) {
    erase_groups(out, group, '(', ')');
  }
  erase_groups(out, "[[", '[', ']');
  trim_front(out);
  while (first_word(out) == "template") {
    out.erase(0, behind_bracket(out, std::min(out.find('<'), out.size()), '<', '>'));
    trim_front(out);
  }
  return out;
}

std::string function_name(const std::string& head) {
  const size_t paren = std::min(head.find('('), head.find('='));
  size_t begin = head.find("operator");
  if (begin == std::string::npos) {
    size_t end = std::min(paren, head.size());
    while (end > 0 && is_space(head[end - 1])) --end;
    begin = end;
    while (begin > 0 &&
           (is_word(head[begin - 1]) || head[begin - 1] == ':' || head[begin - 1] == '~')) {
      --begin;
    }
    const std::string name = head.substr(begin, end - begin);
    if (!name.starts_with("TEST") || paren == std::string::npos) return name;
    std::string arguments = head.substr(paren + 1, head.find(')', paren) - paren - 1);
    const size_t comma = arguments.find(", ");
    return comma == std::string::npos ? arguments : arguments.replace(comma, 2, ".");
  }
  return head.substr(begin, head.find('(', begin) - begin);
}

Scope classify(std::string_view whole_head) {
  const std::string head = simplify(whole_head);
  const std::string_view word = first_word(head);
  const size_t paren = head.find('(');
  const size_t equals = head.find('=');
  if (word == "namespace" || head.starts_with("inline namespace")) return Scope::kTransparent;
  if (word == "extern" && paren == std::string::npos) return Scope::kTransparent;
  if (word == "enum") return Scope::kOpaque;
  const bool is_class = word == "class" || word == "struct" || word == "union";
  if (is_class && paren == std::string::npos && equals == std::string::npos) {
    return Scope::kTransparent;
  }
  const bool is_operator = head.find("operator") < paren;
  if (!is_operator && equals < paren) {
    const bool is_lambda = head.find('[', equals) != std::string::npos;
    return is_lambda && head.ends_with(' ') ? Scope::kFunction : Scope::kInitialiser;
  }
  if (paren == std::string::npos) return Scope::kInitialiser;
  return is_space(whole_head.back()) || whole_head.back() == ')' ? Scope::kFunction
                                                                 : Scope::kInitialiser;
}

// One pass over the code, with a stack of what each open brace belongs to.
class FunctionFinder {
 public:
  explicit FunctionFinder(std::string code) : code_(std::move(code)) {}

  std::vector<FunctionSpan> run() {
    for (at_ = 0; at_ < code_.size(); ++at_) step(code_[at_]);
    return std::move(found_);
  }

 private:
  void step(char c) {
    if (c == '\n') ++line_;
    if (c == '{') {
      open();
    } else if (c == '}') {
      close();
    } else if (in_declarations()) {
      if (head_line_ == 0 && !is_space(c)) head_line_ = line_;
      if (c == '(') ++parens_;
      if (c == ')') --parens_;
      if (c == ';' && parens_ == 0) start_head();
      if (c == ':' && is_access_label()) start_head();
    }
  }

  bool in_declarations() const { return stack_.empty() || stack_.back() == Scope::kTransparent; }

  std::string_view head() const {
    return std::string_view(code_).substr(head_begin_, at_ - head_begin_);
  }

  bool is_access_label() const {
    std::string text(head());
    trim_front(text);
    return text == "public" || text == "protected" || text == "private";
  }

  void start_head() {
    head_begin_ = at_ + 1;
    head_line_ = 0;
    parens_ = 0;
  }

  void open() {
    Scope scope = Scope::kOpaque;
    if (in_declarations()) {
      scope = parens_ > 0 ? Scope::kInitialiser : classify(head());
      if (scope == Scope::kFunction) {
        found_.push_back({function_name(simplify(head())), head_line_, 0});
      }
      if (scope == Scope::kTransparent) start_head();
    }
    stack_.push_back(scope);
  }

  void close() {
    if (stack_.empty()) return;
    const Scope scope = stack_.back();
    stack_.pop_back();
    if (scope == Scope::kFunction) found_.back().line_count = line_ - found_.back().first_line + 1;
    if (scope != Scope::kInitialiser && in_declarations()) start_head();
  }

  std::string code_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t head_begin_ = 0;
  size_t head_line_ = 0;  // of the head's first character; 0 before there is one
  int parens_ = 0;
  std::vector<Scope> stack_;
  std::vector<FunctionSpan> found_;
};

}  // namespace

std::vector<FunctionSpan> find_functions(const SourceFile& file) {
  return FunctionFinder(without_directives(file.code_lines)).run();
}

}  // namespace thimble::style
