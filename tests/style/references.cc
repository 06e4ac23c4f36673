#include "tests/style/references.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace thimble::style {
namespace {

bool is_path_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ||
         c == '/';
}

// The words of `line` that name a document, without a leading "./" or "../".
std::vector<std::string> documents(std::string_view line) {
  std::vector<std::string> out;
  size_t at = 0;
  while (at < line.size()) {
    size_t end = at;
    while (end < line.size() && is_path_character(line[end])) ++end;
    std::string_view word = line.substr(at, end - at);
    at = end + 1;
    while (word.ends_with('.')) word.remove_suffix(1);
    while (word.starts_with("./") || word.starts_with("../")) {
      word.remove_prefix(word.find('/') + 1);
    }
    if (word.size() > 4 && (word.ends_with(".md") || word.ends_with(".svg")))
      out.emplace_back(word);
  }
  return out;
}

bool is_in_tree(const std::vector<SourceFile>& files, const std::string& document) {
  return std::any_of(files.begin(), files.end(), [&](const SourceFile& file) {
    return file.path == document || file.path.ends_with("/" + document);
  });
}

}  // namespace

std::vector<Finding> check_references(const std::vector<SourceFile>& files) {
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    if (file.path.starts_with("docs/spec/")) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& document : documents(file.lines[i])) {
        if (is_in_tree(files, document) || is_excused(file, i + 1)) continue;
        findings.push_back({file.path, i + 1, document + " is not in the tree"});
      }
    }
  }
  return findings;
}

}  // namespace thimble::style
