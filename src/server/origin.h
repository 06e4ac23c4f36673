// Which web pages may call this server from a browser.
//
// A server on localhost can be reached by any page its user visits. Requests that carry no Origin
// (command lines, libraries) are not the browser's affair and always pass; a page passes if this
// server sent it, if it comes from this machine, or if it was allowed by name. Stateless.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace thimble::server {

// `host` is the request's Host header; an entry "*" of `allowed` lets every page in.
bool origin_allowed(std::string_view origin, std::string_view host,
                    std::span<const std::string> allowed);

}  // namespace thimble::server
