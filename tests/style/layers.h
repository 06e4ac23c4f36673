// The arrows between modules: which folder of src/ may include which, read from cmake/layers.txt.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/style/source_file.h"

namespace thimble::style {

// Module -> the modules it may include, itself left out.
using Layers = std::map<std::string, std::set<std::string>>;

// Lines "module: other other"; '#' starts a comment.
Layers parse_layers(const std::vector<std::string>& lines);

// Every #include under src/ that goes against an arrow, names a private header of another module,
// reaches out of src/, or is not written from src/. Also: folders of src/ without a line, and
// arrows that form a cycle.
std::vector<Finding> check_layers(const std::vector<SourceFile>& files, const Layers& layers);

// Libraries that stay behind one of our headers: their includes outside of the folder that wraps
// them, or in a header where only a .cc may name them.
std::vector<Finding> check_fences(const std::vector<SourceFile>& files);

// Kernels are compiled inside target regions (src/kernels/isa/avx2.cc), where no library may define
// functions: they would need AVX2 wherever the linker takes them from. Standard headers there are
// those that every table includes before its region.
std::vector<Finding> check_regions(const std::vector<SourceFile>& files);

}  // namespace thimble::style
