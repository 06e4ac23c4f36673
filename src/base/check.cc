#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace thimble::base {

void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed%s%s\n", file, line, expression,
               detail.empty() ? "" : ": ", detail.c_str());
  std::abort();
}

}  // namespace thimble::base
