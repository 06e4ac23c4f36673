// Numbers of bytes as people write them: "1000000", "512MB", "8GiB".
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace thimble::base {

// A whole number and, directly after it, one of B, kB, MB, GB, TB (powers of 1000) or KiB, MiB,
// GiB, TiB (powers of 1024), in any case. A bare letter is refused: "8G" means either to somebody.
// kInvalidArgument says what would do.
Result<uint64_t> parse_bytes(std::string_view text);

}  // namespace thimble::base
