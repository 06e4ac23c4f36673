// Pages of mapped files, asked for before they are needed.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace thimble::base {

struct PageCount {
  uint64_t pages = 0;
  uint64_t resident = 0;  // were in memory when they were asked for

  PageCount& operator+=(const PageCount& other);
};

// Asks the system to read what of `bytes`, which lie in a mapped file, is not in memory, and does
// not wait for it. Any thread.
PageCount read_ahead(Bytes bytes);

}  // namespace thimble::base
