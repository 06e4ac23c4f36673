// Bytes of a connection to one request, piece by piece. Wraps Boost.Beast's parser, which stays in
// the .cc; needs no socket, so tests and the fuzzer feed it directly.
//
// One object per request; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "net/http.h"

namespace thimble::net {

// Why a request was refused: the status to answer and a sentence for people.
struct HttpRefusal {
  uint32_t status = 400;
  std::string message;
};

class HttpParser {
 public:
  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();

  // Bytes of `data` that were used up. Offer the rest again together with what follows; what is
  // left over once done() belongs to the next request.
  tl::expected<size_t, HttpRefusal> feed(std::string_view data);

  bool header_done() const;
  bool done() const;
  // The following hold once header_done().
  bool expects_continue() const;
  uint64_t declared_body_bytes() const;  // 0: none, or chunked
  uint64_t body_bytes() const;           // so far

  // REQUIRES: done(); once.
  HttpRequest take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thimble::net
