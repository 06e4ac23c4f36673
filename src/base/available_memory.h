// How much memory this process may still take: the least of what the system, the control groups and
// the process limits leave. Linux; elsewhere unknown files mean no limit.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace thimble::base {

struct AvailableMemory {
  uint64_t bytes = 0;
  std::string limited_by;  // "MemAvailable", "cgroup /user.slice", "RLIMIT_AS", "RLIMIT_DATA"
};

// Reads /proc and /sys/fs/cgroup (versions 1 and 2, the group and its ancestors) below `root`;
// tests bring a root of their own. Pages of mapped files do not count as taken: the kernel gives
// them up.
AvailableMemory available_memory(const Path& root = "/");

}  // namespace thimble::base
