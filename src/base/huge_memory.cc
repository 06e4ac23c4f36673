#include "base/huge_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace thimble::base {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kPage = 4096;  // or a larger one: whole ones are given back

uint64_t round_up(uint64_t value, uint64_t unit) { return div_ceil(value, unit) * unit; }

}  // namespace

Result<HugeMemory> HugeMemory::create(uint64_t bytes, std::string_view what) {
  HugeMemory out;
  if (bytes == 0) return out;
  const uint64_t mapped = round_up(bytes, kPage) + kHugePage;
  void* const at =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    return fail(ErrorCode::kResourceExhausted, "no memory for {} of {} bytes: {}", what,
                with_commas(bytes), std::strerror(errno));
  }
  out.data_ = static_cast<std::byte*>(at);
  out.size_ = bytes;
  // What lies before and behind an aligned piece goes back at once.
  const auto address = reinterpret_cast<uintptr_t>(at);
  const uint64_t before = round_up(address, kHugePage) - address;
  out.data_ += before;
  if (before > 0) ::munmap(at, before);
  if (before < kHugePage) ::munmap(out.data_ + round_up(bytes, kPage), kHugePage - before);
  // Advice: a kernel without huge pages refuses, and everything works all the same.
  if (bytes >= kHugePage) ::madvise(out.data_, bytes, MADV_HUGEPAGE);
  return out;
}

HugeMemory::HugeMemory(HugeMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HugeMemory& HugeMemory::operator=(HugeMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HugeMemory::~HugeMemory() {
  if (data_ != nullptr) ::munmap(data_, round_up(size_, kPage));
}

}  // namespace thimble::base
