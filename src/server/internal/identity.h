// Names of requests and answers, which cannot be guessed.
#pragma once

#include <string>
#include <string_view>

namespace thimble::server {

// prefix + 32 random hexadecimal digits.
std::string random_id(std::string_view prefix);

}  // namespace thimble::server
