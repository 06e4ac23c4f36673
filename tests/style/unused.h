// Files that nothing reaches: a .cc that no CMakeLists.txt lists, a header that nothing includes.
#pragma once

#include <vector>

#include "tests/style/source_file.h"

namespace thimble::style {

std::vector<Finding> check_unused(const std::vector<SourceFile>& files);

}  // namespace thimble::style
