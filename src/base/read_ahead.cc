#include "base/read_ahead.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace thimble::base {
namespace {

// What Linux reads at most for one request by default: of more it takes only the beginning where
// the device transfers no more at once.
constexpr size_t kPagesAtOnce = 32;

}  // namespace

PageCount& PageCount::operator+=(const PageCount& other) {
  pages += other.pages;
  resident += other.resident;
  return *this;
}

PageCount read_ahead(Bytes bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  PageCount out;
  if (bytes.empty()) return out;
  const auto first = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t end = (first + bytes.size() + page - 1) / page * page;
  for (uintptr_t at = first / page * page; at < end;) {
    const size_t count = std::min<size_t>(kPagesAtOnce, (end - at) / page);
    auto* const address = reinterpret_cast<void*>(at);
    unsigned char resident[kPagesAtOnce];
    uint64_t here = 0;
    if (::mincore(address, count * page, resident) == 0) {
      for (size_t i = 0; i < count; ++i) here += resident[i] & 1U;
    }
    ::madvise(address, count * page, MADV_WILLNEED);  // whatever that said: see tells_residency()
    out += {count, here};
    at += count * page;
  }
  return out;
}

bool tells_residency(const Path& file) {
  struct stat info = {};
  if (::stat(file.c_str(), &info) != 0) return false;
  const uid_t user = ::geteuid();
  return user == 0 || user == info.st_uid ||
         ::faccessat(AT_FDCWD, file.c_str(), W_OK, AT_EACCESS) == 0;
}

}  // namespace thimble::base
