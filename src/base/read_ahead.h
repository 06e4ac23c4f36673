// Pages of mapped files, asked for before they are needed.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/file.h"

namespace thimble::base {

struct PageCount {
  uint64_t pages = 0;
  uint64_t resident = 0;  // were in memory when they were asked for

  PageCount& operator+=(const PageCount& other);
};

// Asks the system to read what of `bytes`, which lie in a mapped file, is not in memory, and does
// not wait for it. Any thread.
PageCount read_ahead(Bytes bytes);

// Whether `resident` says anything about pages of this file. To those who neither own a file nor
// may write it Linux names every page resident, so that nobody spies on what others read.
bool tells_residency(const Path& file);

}  // namespace thimble::base
