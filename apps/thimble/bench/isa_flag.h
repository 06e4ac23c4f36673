// `--isa` of the benchmarks.
#pragma once

#include <string>

#include "base/result.h"

namespace thimble::app {

// An unknown name, or that of what this CPU does not run, is an error that lists what it runs. None
// is none: a benchmark has its own choice then.
Result<void> check_isa(const std::string& isa);

}  // namespace thimble::app
