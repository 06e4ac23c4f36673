#include "server/origin.h"

#include <algorithm>

namespace thimble::server {
namespace {

// "http://[::1]:8080" -> "[::1]:8080"; empty for "null" and other origins without an authority.
std::string_view authority_of(std::string_view origin) {
  const size_t at = origin.find("://");
  return at == std::string_view::npos ? std::string_view{} : origin.substr(at + 3);
}

std::string_view without_port(std::string_view authority) {
  const size_t colon = authority.rfind(':');
  const bool inside_brackets = authority.ends_with(']');
  return colon == std::string_view::npos || inside_brackets ? authority
                                                            : authority.substr(0, colon);
}

}  // namespace

bool origin_allowed(std::string_view origin, std::string_view host, const OriginPolicy& policy) {
  if (origin.empty()) return true;
  const auto matches = [&](const std::string& entry) { return entry == "*" || entry == origin; };
  if (std::any_of(policy.allowed.begin(), policy.allowed.end(), matches)) return true;
  const std::string_view authority = authority_of(origin);
  if (authority.empty()) return false;
  if (policy.trusts_host && authority == host) return true;
  const std::string_view name = without_port(authority);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

}  // namespace thimble::server
