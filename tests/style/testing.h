// What the tests of the style checks share: the tree, read once, and matching of findings.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/style/source_file.h"

namespace thimble::style {

// The repository this test was built from.
inline const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = read_tree(THIMBLE_SOURCE_DIR);
  return files;
}

// Fails with the list of all findings, if there are any.
inline void expect_none(const std::vector<Finding>& findings) {
  std::string list;
  for (const Finding& finding : findings) list += "\n  " + to_string(finding);
  EXPECT_TRUE(findings.empty()) << list;
}

// The findings as "path:line", for the self-tests.
inline std::vector<std::string> places(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& finding : findings) {
    out.push_back(finding.path + ":" + std::to_string(finding.line));
  }
  return out;
}

inline std::vector<std::string> read_lines(const std::string& path) {
  for (const SourceFile& file : tree()) {
    if (file.path == path) return file.lines;
  }
  ADD_FAILURE() << path << " is not in the tree";
  return {};
}

}  // namespace thimble::style
