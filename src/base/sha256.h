// SHA-256 (FIPS 180-4), for comparing small files with a published digest.
//
// Stateless; any thread.
#pragma once

#include <string>
#include <string_view>

namespace thimble::base {

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace thimble::base
