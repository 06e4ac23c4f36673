#include "tests/style/ratchets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "tests/style/functions.h"

namespace thimble::style {
namespace {

constexpr std::string_view kRatchetFile = "dev/ratchets.txt";

// "function PATH:NAME" or "file PATH" -> lines.
using Lengths = std::map<std::string, size_t>;

// Kernels are one algorithm from top to bottom; they have named stages instead of a limit.
bool is_exempt(std::string_view path) {
  return path.starts_with("src/kernels/generic/") || path.starts_with("src/kernels/isa/");
}

bool has_length_limit(std::string_view path) {
  constexpr std::string_view kProse = ".md";
  return !is_exempt(path) && !path.ends_with(kProse) && !path.ends_with(".json") &&
         path != kRatchetFile;
}

Lengths too_long(const std::vector<SourceFile>& files) {
  Lengths lengths;
  for (const SourceFile& file : files) {
    if (!has_length_limit(file.path)) continue;
    if (file.lines.size() > kFileLinesMax) lengths["file " + file.path] = file.lines.size();
    if (!is_cpp(file.path)) continue;
    for (const FunctionSpan& function : find_functions(file)) {
      if (function.line_count <= kFunctionLinesMax) continue;
      size_t& length = lengths[fmt::format("function {}:{}", file.path, function.name)];
      length = std::max(length, function.line_count);
    }
  }
  return lengths;
}

Lengths parse_ratchets(const std::vector<std::string>& lines) {
  Lengths lengths;
  for (const std::string& line : lines) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    std::string kind;
    std::string place;
    size_t length = 0;
    in >> kind >> place >> length;
    lengths[kind + " " + place] = length;
  }
  return lengths;
}

}  // namespace

std::vector<Finding> check_lengths(const std::vector<SourceFile>& files,
                                   const std::vector<std::string>& recorded) {
  const Lengths actual = too_long(files);
  const Lengths allowed = parse_ratchets(recorded);
  std::vector<Finding> findings;
  for (const auto& [what, length] : actual) {
    const auto entry = allowed.find(what);
    if (entry == allowed.end()) {
      const size_t limit = what.starts_with("file") ? kFileLinesMax : kFunctionLinesMax;
      findings.push_back(
          {std::string(kRatchetFile), 0,
           fmt::format("{} has {} lines; {} is the limit: split it", what, length, limit)});
    } else if (length > entry->second) {
      findings.push_back({std::string(kRatchetFile), 0,
                          fmt::format("{} grew from {} to {} lines", what, entry->second, length)});
    } else if (length < entry->second) {
      findings.push_back(
          {std::string(kRatchetFile), 0,
           fmt::format("{} shrank: lower its line from {} to {}", what, entry->second, length)});
    }
  }
  for (const auto& [what, length] : allowed) {
    if (actual.count(what) == 0) {
      findings.push_back({std::string(kRatchetFile), 0,
                          fmt::format("{} is within the limit now: remove its line", what)});
    }
  }
  return findings;
}

std::vector<Finding> check_macros(const std::vector<SourceFile>& files) {
  std::vector<Finding> findings;
  std::set<std::string> ours;
  for (const SourceFile& file : files) {
    if (!is_cpp(file.path) || file.path == "src/base/check.h") continue;
    for (size_t i = 0; i < file.code_lines.size(); ++i) {
      std::istringstream in(file.code_lines[i]);
      std::string directive;
      std::string name;
      in >> directive >> name;
      if (directive != "#define" || is_excused(file, i + 1)) continue;
      name = name.substr(0, name.find('('));
      if (!name.starts_with("THIMBLE_")) {
        findings.push_back({file.path, i + 1, name + ": macros are named THIMBLE_*"});
      } else if (ours.insert(name).second && ours.size() > kMacrosMax) {
        findings.push_back(
            {file.path, i + 1, fmt::format("{} would be macro number {}", name, ours.size())});
      }
    }
  }
  return findings;
}

}  // namespace thimble::style
