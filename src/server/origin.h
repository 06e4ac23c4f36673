// Which web pages may call this server from a browser, and under which names it answers.
//
// A server on localhost can be reached by any page its user visits. Browsers tell of it in two
// ways. A page of another site, another port of this machine included, sends its Origin: it passes
// if it was allowed by name, or if this server sent it itself, which its Host tells where that can
// be believed. A page whose own name was made to point here (DNS rebinding) calls what it takes for
// its own site, often without an Origin, but its Host is that name: a server for this machine only
// answers to this machine's names and to those of allowed pages. Programs that are no browsers send
// no Origin, and the Host of the address they called. Values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thimble::server {

struct OriginPolicy {
  std::vector<std::string> allowed;  // "https://chat.example"; "*" lets every page in
  // Is any Host ours, and a page whose origin equals it our own? Not on a server for this machine
  // only: there the name may be one that an attacker made to point here.
  bool trusts_host = false;
  std::string own_host;  // what the server was told to listen on: one of its names
};

bool origin_allowed(std::string_view origin, std::string_view host, const OriginPolicy& policy);

// An absent Host is allowed: every browser sends one.
bool host_allowed(std::string_view host, const OriginPolicy& policy);

}  // namespace thimble::server
