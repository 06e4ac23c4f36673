#include "tests/api/api_case.h"

#include <sstream>

namespace thimble::server {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Result<std::vector<CaseSection>> read_case(const Path& file) {
  const std::string text = THIMBLE_TRY(base::read_file(file));
  std::vector<CaseSection> sections;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (line.starts_with("--- ")) {
      sections.push_back({line.substr(4), "", number});
    } else if (!sections.empty()) {
      std::string& into = sections.back().text;
      into += (into.empty() && sections.back().line + 1 == number ? "" : "\n") + line;
    } else if (!line.empty() && !line.starts_with("#")) {
      return base::fail(ErrorCode::kInvalidArgument, "{}:{}: text before the first section",
                        file.string(), number);
    }
  }
  if (sections.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "{} has no sections", file.string());
  }
  return sections;
}

HeadAndBody split_head(const std::string& text) {
  HeadAndBody out;
  const size_t blank = text.find("\n\n");
  out.head = lines_of(text.substr(0, blank));
  out.has_body = blank != std::string::npos;
  if (out.has_body) out.body = text.substr(blank + 2);
  return out;
}

}  // namespace thimble::server
