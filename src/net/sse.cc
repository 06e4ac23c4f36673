#include "net/sse.h"

#include "base/check.h"

namespace thimble::net {

std::string sse_event(std::string_view data) {
  std::string out;
  out.reserve(data.size() + 16);
  size_t begin = 0;
  while (true) {
    // Each of CR LF, LF and CR ends a line for the client.
    const size_t end = data.find_first_of("\r\n", begin);
    out += "data: ";
    out += data.substr(begin, end == std::string_view::npos ? end : end - begin);
    out += '\n';
    if (end == std::string_view::npos) break;
    begin = end + (data.substr(end, 2) == "\r\n" ? 2 : 1);
  }
  out += '\n';
  return out;
}

std::string sse_event(std::string_view name, std::string_view data) {
  DCHECK(name.find_first_of("\r\n") == std::string_view::npos);
  return std::string("event: ").append(name) + '\n' + sse_event(data);
}

std::string sse_comment(std::string_view text) {
  DCHECK(text.find_first_of("\r\n") == std::string_view::npos);
  return std::string(": ").append(text).append("\n\n");
}

}  // namespace thimble::net
