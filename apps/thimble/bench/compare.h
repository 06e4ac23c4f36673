// Two runs of `thimble bench kernels --json`, side by side.
#pragma once

#include <string>

#include "base/file.h"

namespace thimble::app {

// A table of the cases that both files have, with the ratio of their times; says what only one has.
// The error names the file and the line: of what is no result, and of a case that is there twice.
Result<std::string> compare_runs(const Path& before, const Path& after);

}  // namespace thimble::app
