// Checks that need one line at a time.
#pragma once

#include <vector>

#include "tests/style/source_file.h"

namespace thimble::style {

inline constexpr size_t kLineColumnsMax = 100;

// Lines over 100 characters (not bytes). Tables and addresses in prose, docs/spec and
// data are let through.
std::vector<Finding> check_line_length(const std::vector<SourceFile>& files);

// Reminders must carry the number of an issue, so that they are found by who works on it.
std::vector<Finding> check_reminders(const std::vector<SourceFile>& files);

// Places that exist on somebody's machine only: home directories, and `root`, where this checkout
// happens to lie.
std::vector<Finding> check_machine_paths(const std::vector<SourceFile>& files,
                                         const std::string& root);

// Calls and constructs that have a better replacement in this tree.
std::vector<Finding> check_banned(const std::vector<SourceFile>& files);

// A header opens with what it is for, then `#pragma once`; a test with its aim and method.
std::vector<Finding> check_openings(const std::vector<SourceFile>& files);

}  // namespace thimble::style
