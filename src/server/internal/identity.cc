#include "server/internal/identity.h"

#include <fmt/format.h>

#include "base/random.h"

namespace thimble::server {

std::string random_id(std::string_view prefix) {
  return fmt::format("{}{:016x}{:016x}", prefix, base::entropy_u64(), base::entropy_u64());
}

}  // namespace thimble::server
