#include "base/read_ahead.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace thimble::base {
namespace {

constexpr size_t kPagesAtOnce = 1024;

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
    if (here < count) ::madvise(address, count * page, MADV_WILLNEED);
    out += {count, here};
    at += count * page;
  }
  return out;
}

}  // namespace thimble::base
