#include "tests/style/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace thimble::style {
namespace {

// Code points: every byte of UTF-8 but the continuation bytes.
size_t count_columns(std::string_view line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

bool may_be_long(std::string_view path, std::string_view line) {
  if (path.ends_with(".json") || path.ends_with(".http")) return true;
  if (path.starts_with("docs/spec/")) return true;  // reference data, most of it tables
  const bool is_address = line.find("https://") != std::string_view::npos;
  return is_address || (path.ends_with(".md") && line.starts_with('|'));
}

// $HOME/root/ and such: the place found is the end of a longer path.
bool is_path_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '}';
}

// Is the reminder at `at` followed by an issue number, as in (#12)?
bool has_issue_number(std::string_view line, size_t at) {
  return line.size() > at + 2 && line.substr(at, 2) == "(#" && line[at + 2] >= '1' &&
         line[at + 2] <= '9';
}

}  // namespace

std::vector<Finding> check_line_length(const std::vector<SourceFile>& files) {
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const size_t columns = count_columns(file.lines[i]);
      if (columns <= kLineColumnsMax || may_be_long(file.path, file.lines[i])) continue;
      findings.push_back(
          {file.path, i + 1, fmt::format("{} columns; {} at most", columns, kLineColumnsMax)});
    }
  }
  return findings;
}

std::vector<Finding> check_reminders(const std::vector<SourceFile>& files) {
  constexpr std::array kReminders = {"TODO", "FIXME", "XXX:"};  // style-ok: the list itself
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string_view reminder : kReminders) {
        const size_t at = file.lines[i].find(reminder);
        if (at == std::string::npos || is_excused(file, i + 1)) continue;
        if (has_issue_number(file.lines[i], at + reminder.size())) continue;
        findings.push_back(
            {file.path, i + 1, fmt::format("{0} lacks an issue number: {0}(#12)", reminder)});
      }
    }
  }
  return findings;
}

std::vector<Finding> check_machine_paths(const std::vector<SourceFile>& files,
                                         const std::string& root) {
  const std::array<std::string, 4> places = {"/home/", "/root/", "/Users/",  // style-ok: the list
                                             root + "/"};
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& place : places) {
        const size_t at = file.lines[i].find(place);
        if (at == std::string::npos || is_excused(file, i + 1)) continue;
        if (at > 0 && is_path_character(file.lines[i][at - 1])) continue;
        findings.push_back({file.path, i + 1, fmt::format("{} is one machine's path", place)});
      }
    }
  }
  return findings;
}

std::vector<Finding> check_openings(const std::vector<SourceFile>& files) {
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    const bool opens_with_comment = !file.lines.empty() && file.lines[0].starts_with("//");
    if (is_header(file.path)) {
      if (!opens_with_comment) findings.push_back({file.path, 1, "open with what it is for"});
      const auto once = std::find(file.lines.begin(), file.lines.end(), "#pragma once");
      if (once == file.lines.end()) findings.push_back({file.path, 1, "lacks #pragma once"});
    } else if (file.path.ends_with("_test.cc") && !opens_with_comment) {
      findings.push_back({file.path, 1, "open with the aim and method of the tests"});
    }
  }
  return findings;
}

}  // namespace thimble::style
