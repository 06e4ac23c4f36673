// Zeroed memory that is aligned for huge pages and has them where the system gives any. Nobody
// touches it beforehand: what is never used costs address space only.
//
// Movable; empty until create(). Safe to use from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace thimble::base {

class HugeMemory {
 public:
  HugeMemory() = default;
  // kResourceExhausted: "no memory for `what` of N bytes", with the system's reason.
  static Result<HugeMemory> create(uint64_t bytes, std::string_view what);
  HugeMemory(HugeMemory&& other) noexcept;
  HugeMemory& operator=(HugeMemory&& other) noexcept;
  ~HugeMemory();

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace thimble::base
