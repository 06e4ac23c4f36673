#include <fmt/format.h>

#include <array>
#include <cctype>

#include "tests/style/lines.h"

namespace thimble::style {
namespace {

// What is not to be written, where it may be all the same, and what to write instead.
struct Ban {
  std::string_view word;        // whole words; a final '(' means a call
  std::string_view allowed_in;  // path prefix, empty for nowhere
  std::string_view instead;
};

constexpr std::array kBans = {
    Ban{"strcpy(", "", "std::string, or memcpy of a known size"},
    Ban{"strcat(", "", "std::string"},
    Ban{"printf(", "", "fmt::print"},
    Ban{"fprintf(", "src/base/", "fmt::print to a stream, or base/log.h"},
    Ban{"sprintf(", "", "fmt::format"},
    Ban{"snprintf(", "", "fmt::format_to_n"},
    Ban{"scanf(", "", "std::from_chars"},
    Ban{"sscanf(", "", "std::from_chars"},
    Ban{"atoi(", "", "std::from_chars, which reports errors"},
    Ban{"atol(", "", "std::from_chars, which reports errors"},
    Ban{"atof(", "", "std::from_chars, which reports errors"},
    Ban{"strtol(", "", "std::from_chars"},
    Ban{"strtod(", "", "std::from_chars, which ignores the locale"},
    Ban{"std::stoi(", "", "std::from_chars, which does not throw"},
    Ban{"std::stol(", "", "std::from_chars, which does not throw"},
    Ban{"std::stoul(", "", "std::from_chars, which does not throw"},
    Ban{"std::stoull(", "", "std::from_chars, which does not throw"},
    Ban{"std::stof(", "", "std::from_chars, which does not throw"},
    Ban{"std::stod(", "", "std::from_chars, which does not throw"},
    Ban{"rand(", "", "base/random.h, seeded"},
    Ban{"srand(", "", "base/random.h, seeded"},
    Ban{"std::random_device", "src/base/", "base/random.h, seeded"},
    Ban{"std::mt19937", "", "base/random.h: the same numbers everywhere"},
    Ban{"std::regex", "", "PCRE2 in text, or a loop"},
    Ban{"std::endl", "", "'\\n'; flush where it matters"},
    Ban{"std::bind(", "", "a lambda"},
    Ban{"using namespace", "", "the names you need"},
    Ban{"assert(", "", "CHECK or DCHECK (base/check.h)"},
    Ban{"throw", "", "return a Result (base/result.h)"},
    Ban{"getenv(", "src/base/", "base/env.h, where every variable is declared"},
    Ban{"std::system(", "tests/", "a library call"},
    Ban{"popen(", "tests/", "a library call"},
    Ban{"alloca(", "", "kernels/workspace.h"},
    Ban{"localtime(", "", "localtime_r"},
    Ban{"gmtime(", "", "gmtime_r"},
    Ban{"malloc(", "", "std::vector or std::unique_ptr"},
    Ban{"free(", "", "std::vector or std::unique_ptr"},
    Ban{"new", "", "std::make_unique or a container"},
    Ban{"delete", "", "std::make_unique or a container"},
    Ban{"goto", "", "a function"},
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Is the match at [at, at + size) a whole word and not part of a longer name or a member of
// something else?
bool stands_alone(std::string_view line, size_t at, std::string_view word) {
  const std::string_view before = line.substr(0, at);
  const std::string_view after = line.substr(at + word.size());
  if (!before.empty() && (is_word(before.back()) || before.back() == '.')) return false;
  if (before.ends_with("->")) return false;
  // Another namespace's function of that name; std:: and :: mean the banned one.
  if (before.ends_with("::") && before.size() > 2 && is_word(before[before.size() - 3]) &&
      !before.ends_with("std::")) {
    return false;
  }
  return word.back() == '(' || after.empty() || !is_word(after.front());
}

// The harmless uses of three keywords: `= delete`, raw memory by `operator new`, an object that an
// owner takes over on the same line (a private constructor), and passing an exception on.
bool is_harmless(std::string_view line, size_t at, std::string_view word) {
  std::string_view before = line.substr(0, at);
  while (before.ends_with(' ')) before.remove_suffix(1);
  if (word == "delete") return before.ends_with('=') || before.ends_with("operator");
  if (word == "throw") return line.substr(at).starts_with("throw;");
  if (word != "new") return false;
  return before.ends_with("operator") || before.find("_ptr<") != std::string_view::npos ||
         before.find(".reset(") != std::string_view::npos;
}

bool contains(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    if (stands_alone(line, at, word) && !is_harmless(line, at, word)) return true;
  }
  return false;
}

}  // namespace

std::vector<Finding> check_banned(const std::vector<SourceFile>& files) {
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    if (!is_cpp(file.path)) continue;
    for (size_t i = 0; i < file.code_lines.size(); ++i) {
      const std::string_view line = file.code_lines[i];
      if (line.find_first_not_of(' ') != std::string_view::npos &&
          line[line.find_first_not_of(' ')] == '#') {
        continue;  // <new>, and conditions
      }
      for (const Ban& ban : kBans) {
        if (!ban.allowed_in.empty() && file.path.starts_with(ban.allowed_in)) continue;
        if (!contains(line, ban.word) || is_excused(file, i + 1)) continue;
        if (ban.word == "throw" && is_test(file.path)) continue;  // tests play throwing libraries
        findings.push_back({file.path, i + 1, fmt::format("{}: use {}", ban.word, ban.instead)});
      }
    }
  }
  return findings;
}

}  // namespace thimble::style
