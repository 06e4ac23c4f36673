// Compares JSON with a pattern: equal values match; "<string>", "<number>", "<bool>" and "<any>"
// match by type; objects must have the same keys unless the pattern has a key "...".
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace thimble::server {

// Empty: they match. Else the first difference, with its path.
std::string mismatch(const nlohmann::json& pattern, const nlohmann::json& value,
                     const std::string& path = "$");

}  // namespace thimble::server
