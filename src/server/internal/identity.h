// Names that cannot be guessed: request ids, and seeds for requests that bring none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thimble::server {

uint64_t random_u64();

// prefix + 32 random hexadecimal digits.
std::string random_id(std::string_view prefix);

}  // namespace thimble::server
