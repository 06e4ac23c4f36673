#include "tests/style/source_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace thimble::style {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// #include "x" or #include <x> in `line`; the code line tells that it is not commented out.
void add_include(const std::string& line, const std::string& code_line, size_t number,
                 std::vector<Include>& includes) {
  std::string_view code = trim(code_line);
  if (code.empty() || code.front() != '#') return;
  code = trim(code.substr(1));
  if (!code.starts_with("include")) return;
  const size_t open = line.find_first_of("\"<");
  if (open == std::string::npos) return;
  const bool quoted = line[open] == '"';
  const size_t close = line.find(quoted ? '"' : '>', open + 1);
  if (close == std::string::npos) return;
  includes.push_back({line.substr(open + 1, close - open - 1), number, quoted});
}

bool is_skipped_folder(const std::string& name) {
  constexpr std::array kSkipped = {".git", "build", "node_modules", "corpus", "vendor"};
  return std::find(kSkipped.begin(), kSkipped.end(), name) != kSkipped.end();
}

bool is_text(const fs::path& path) {
  constexpr std::array kExtensions = {".cc",  ".h",   ".md",   ".cmake", ".txt",  ".sh",  ".js",
                                      ".mjs", ".css", ".html", ".svg",   ".json", ".http"};
  constexpr std::array kNames = {"Makefile", "run", "check_layers", "tidy", ".clang-tidy"};
  const std::string name = path.filename().string();
  if (name == "package-lock.json") return false;
  const bool is_data = path.generic_string().find("/golden/") != std::string::npos;
  if (is_data && !is_cpp(name) && name != "CMakeLists.txt") return false;
  const bool is_model = path.generic_string().find("/models/") != std::string::npos;
  if (is_model && path.extension() != ".md") return false;
  return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) !=
             kExtensions.end() ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string to_string(const Finding& finding) {
  return fmt::format("{}:{}: {}", finding.path, finding.line, finding.message);
}

SourceFile make_source_file(std::string path, std::string_view text) {
  SourceFile file;
  file.path = std::move(path);
  file.lines = split_lines(text);
  file.code_lines = is_cpp(file.path) ? split_lines(blank_comments_and_literals(text)) : file.lines;
  if (is_cpp(file.path)) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      add_include(file.lines[i], file.code_lines[i], i + 1, file.includes);
    }
  }
  return file;
}

std::vector<SourceFile> read_tree(const std::string& root) {
  std::vector<SourceFile> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
       ++it) {
    if (it->is_directory()) {
      if (is_skipped_folder(it->path().filename().string())) it.disable_recursion_pending();
    } else if (it->is_regular_file() && is_text(it->path())) {
      files.push_back(
          make_source_file(fs::relative(it->path(), root).generic_string(), read_text(it->path())));
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

bool is_cpp(std::string_view path) { return path.ends_with(".cc") || path.ends_with(".h"); }

bool is_header(std::string_view path) { return path.ends_with(".h"); }

bool is_test(std::string_view path) {
  return path.ends_with("_test.cc") || path.starts_with("tests/");
}

std::string module_of(std::string_view path) {
  if (!path.starts_with("src/")) return "";
  path.remove_prefix(4);
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? "" : std::string(path.substr(0, slash));
}

bool is_excused(const SourceFile& file, size_t line) {
  constexpr std::string_view kMark = "style-ok: ";
  const auto says_why = [&](size_t number) {
    if (number == 0 || number > file.lines.size()) return false;
    const size_t at = file.lines[number - 1].find(kMark);
    return at != std::string::npos && file.lines[number - 1].size() > at + kMark.size();
  };
  return says_why(line) || says_why(line - 1);
}

}  // namespace thimble::style
