// Where functions begin and end, found by matching braces.
//
// No parser: it relies on the layout that clang-format gives (a space before the brace of a body,
// none before the brace of an initialiser). Good enough to measure length, and its tests hold the
// shapes it must know.
#pragma once

#include <string>
#include <vector>

#include "tests/style/source_file.h"

namespace thimble::style {

struct FunctionSpan {
  std::string name;       // as written, "Reader::next"; tests are "Suite.Case"
  size_t first_line = 0;  // of the signature, from 1
  size_t line_count = 0;  // up to and with the closing brace
};

// Functions, member functions with a body, tests, and lambdas held by a namespace or class. What
// lies inside a function counts to it.
std::vector<FunctionSpan> find_functions(const SourceFile& file);

}  // namespace thimble::style
