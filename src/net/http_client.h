// A small HTTP/1.1 client: one request, one answer, one connection.
//
// For our own tools that talk to servers people run themselves, so it speaks plain HTTP only:
// https:// is refused by name. Blocks the calling thread; any thread may call. Every wait has a
// limit, the answer's size too, and whatever goes wrong comes back as an error that names the
// address. Redirects are answers like any other.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http.h"

namespace thimble::net {

struct HttpUrl {
  std::string host;         // without the brackets of an IPv6 address
  std::string port = "80";  // digits
  std::string path;         // "" or "/v1", never with a slash at its end

  std::string authority() const;  // "localhost:8080", "[::1]:8080"
};

// "http://host[:port][/path]". kUnsupported for https, kInvalidArgument for what is no such URL.
Result<HttpUrl> parse_http_url(std::string_view url);

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";              // path and query
  std::vector<HttpHeader> headers = {};  // Host, Content-Length and Connection are added
  std::string body = {};
  uint32_t connect_ms = 10'000;
  uint32_t answer_ms = 600'000;  // from sending to the answer's last byte
  uint64_t answer_bytes = 64 << 20;
  // Takes the body of an answer of status 200 as it comes; the answer then has none. May be empty.
  std::function<void(std::string_view)> on_body = {};
};

// kUnavailable: nobody there. kIo: the connection broke, took too long, or sent no valid answer.
Result<HttpResponse> http_call(const HttpUrl& url, const HttpCall& call);

// Several at once, a connection each, all on the calling thread. [calls]
std::vector<Result<HttpResponse>> http_calls(const HttpUrl& url, std::span<const HttpCall> calls);

}  // namespace thimble::net
