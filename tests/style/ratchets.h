// Lengths that may only shrink: functions over 70 lines, files over 600, and the four macros.
//
// dev/ratchets.txt lists what is longer today, one a line:
//   function src/text/tokenizer.cc:Tokenizer::open 84
//   file src/engine/engine.cc 640
// A listed length is exact: growing is a mistake, and after shrinking the line is lowered or goes.
#pragma once

#include <string>
#include <vector>

#include "tests/style/source_file.h"

namespace thimble::style {

inline constexpr size_t kFunctionLinesMax = 70;
inline constexpr size_t kFileLinesMax = 600;
inline constexpr size_t kMacrosMax = 4;

// `recorded` are the lines of dev/ratchets.txt.
std::vector<Finding> check_lengths(const std::vector<SourceFile>& files,
                                   const std::vector<std::string>& recorded);

// Macros of ours are named THIMBLE_*, and there are four of them at most; CHECK and its kin in
// base/check.h are the only others.
std::vector<Finding> check_macros(const std::vector<SourceFile>& files);

}  // namespace thimble::style
