// Mentions of documents: a header that cites one, or a page that links to it, must not lead
// nowhere.
#pragma once

#include <vector>

#include "tests/style/source_file.h"

namespace thimble::style {

// Every word that ends in .md or .svg, in a comment, a message or a link, must be the end of a path
// in `files`: "spec/backbone.md" stands for docs/spec/backbone.md. docs/spec/ is let off: it cites
// documents of others.
std::vector<Finding> check_references(const std::vector<SourceFile>& files);

}  // namespace thimble::style
