// Which web pages may call this server from a browser.
//
// A server on localhost can be reached by any page its user visits. Requests that carry no Origin
// (command lines, libraries) are not the browser's affair and always pass; a page passes if it
// comes from this machine, if it was allowed by name, or, where the server is meant for others too,
// if the server sent it itself. Values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thimble::server {

struct OriginPolicy {
  std::vector<std::string> allowed;  // "https://chat.example"; "*" lets every page in
  // Is a page whose origin equals the request's Host our own? Not on a server for this machine
  // only: there it comes from a name that an attacker made to point here.
  bool trusts_host = false;
};

bool origin_allowed(std::string_view origin, std::string_view host, const OriginPolicy& policy);

}  // namespace thimble::server
