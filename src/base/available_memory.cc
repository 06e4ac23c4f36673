#include "base/available_memory.h"

#include <sys/resource.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

namespace thimble::base {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// Empty when it cannot be read. Files of /proc claim a size of 0, so they are read to their end.
std::string content_of(const Path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::optional<uint64_t> parse(std::string_view text) {
  uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// The number after `key` at the beginning of a line, as in "MemAvailable:   123 kB".
std::optional<uint64_t> field(const std::string& content, const std::string& key) {
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t digit = line.find_first_of("0123456789", key.size());
    if (digit != std::string::npos) return parse(std::string_view(line).substr(digit));
  }
  return std::nullopt;
}

void lower(AvailableMemory& memory, uint64_t bytes, const std::string& reason) {
  if (bytes < memory.bytes) memory = {bytes, reason};
}

// The names the two versions of control groups give to the same things.
struct CgroupFiles {
  const char* limit;
  const char* used;
  const char* reclaimable;  // key of memory.stat: file pages that the group would give up
};
constexpr CgroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file "};
constexpr CgroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file "};

// The group's own limit and those of the groups above it, up to the mount point.
void lower_to_cgroup(AvailableMemory& memory, const Path& mount, const Path& group,
                     const CgroupFiles& files) {
  for (Path path = group.relative_path();; path = path.parent_path()) {
    const Path directory = mount / path;
    const auto limit = parse(content_of(directory / files.limit));  // "max" is none
    const auto used = parse(content_of(directory / files.used));
    if (limit && used) {
      const uint64_t reclaimable =
          field(content_of(directory / "memory.stat"), files.reclaimable).value_or(0);
      lower(memory, minus(*limit, minus(*used, reclaimable)), "cgroup /" + path.string());
    }
    if (path.empty()) break;
  }
}

void lower_to_cgroups(AvailableMemory& memory, const Path& root) {
  const Path mount = root / "sys/fs/cgroup";
  std::istringstream lines(content_of(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/a/b", "0::/a/b"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const Path group = line.substr(second + 1);
    if (controllers.empty()) lower_to_cgroup(memory, mount, group, kVersion2);
    if (controllers == "memory") lower_to_cgroup(memory, mount / "memory", group, kVersion1);
  }
}

void lower_to_rlimit(AvailableMemory& memory, int resource, const char* name, uint64_t used) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return;
  if (limit.rlim_cur == RLIM_INFINITY) return;
  lower(memory, minus(limit.rlim_cur, used), name);
}

}  // namespace

AvailableMemory available_memory(const Path& root) {
  AvailableMemory memory{kNoLimit, "nothing"};
  const auto available = field(content_of(root / "proc/meminfo"), "MemAvailable:");
  if (available) lower(memory, *available * 1024, "MemAvailable");
  lower_to_cgroups(memory, root);
  const std::string status = content_of(root / "proc/self/status");
  lower_to_rlimit(memory, RLIMIT_AS, "RLIMIT_AS", field(status, "VmSize:").value_or(0) * 1024);
  lower_to_rlimit(memory, RLIMIT_DATA, "RLIMIT_DATA", field(status, "VmData:").value_or(0) * 1024);
  return memory;
}

}  // namespace thimble::base
