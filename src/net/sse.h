// Server-sent events (WHATWG HTML, section 9.2): how a stream of answers is framed.
#pragma once

#include <string>
#include <string_view>

namespace thimble::net {

// "data: ...", a line per line of `data`, and the blank line that ends the event.
std::string sse_event(std::string_view data);
// The same with a name before it. REQUIRES: no line break in `name`.
std::string sse_event(std::string_view name, std::string_view data);

// A line that clients skip; keeps a silent connection alive. REQUIRES: no line break in `text`.
std::string sse_comment(std::string_view text);

}  // namespace thimble::net
