// Parts of a request's body as they were spelled: what goes into prompts keeps its order of keys
// and its numbers.
#pragma once

#include <string_view>

namespace thimble::server {

// The spelling of an object's last member of that name; empty if there is none, or no object.
std::string_view spelled(std::string_view object, std::string_view name);

}  // namespace thimble::server
