#include "server/internal/identity.h"

#include <fmt/format.h>

#include <random>

namespace thimble::server {

uint64_t random_u64() {
  std::random_device device;  // the system's own source: nothing to share between threads
  return (static_cast<uint64_t>(device()) << 32) | device();
}

std::string random_id(std::string_view prefix) {
  return fmt::format("{}{:016x}{:016x}", prefix, random_u64(), random_u64());
}

}  // namespace thimble::server
