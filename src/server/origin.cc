#include "server/origin.h"

#include <algorithm>

#include "net/http.h"

namespace thimble::server {
namespace {

using net::same_name;

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

// A name that every browser resolves to the machine it runs on. Digits and dots are an address: no
// domain ends in a number.
bool is_this_machine(std::string_view name) {
  if (same_name(name, "localhost") || name == "[::1]") return true;
  return name.starts_with("127.") && name.find_first_not_of("0123456789.") == name.npos;
}

}  // namespace

bool origin_allowed(std::string_view origin, std::string_view host, const OriginPolicy& policy) {
  if (origin.empty()) return true;
  const auto matches = [&](const std::string& entry) { return entry == "*" || entry == origin; };
  if (std::any_of(policy.allowed.begin(), policy.allowed.end(), matches)) return true;
  const std::string_view authority = authority_of(origin);
  if (authority.empty() || authority != host) return false;
  const std::string_view name = without_port(authority);
  return policy.trusts_host || is_this_machine(name) || same_name(name, policy.own_host);
}

bool host_allowed(std::string_view host, const OriginPolicy& policy) {
  if (host.empty() || policy.trusts_host) return true;
  const std::string_view name = without_port(host);
  if (name.empty()) return false;
  if (is_this_machine(name) || same_name(name, policy.own_host)) return true;
  return std::any_of(policy.allowed.begin(), policy.allowed.end(), [&](const std::string& entry) {
    return entry == "*" || same_name(name, without_port(authority_of(entry)));
  });
}

}  // namespace thimble::server
