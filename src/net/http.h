// HTTP/1.1 as the rest of thimble sees it: a request, a response, one exchange, one server.
//
// One I/O thread moves bytes and nothing else. It hands each whole request to the handler as an
// HttpExchange, which may be answered later and from any thread. A client that leaves while its
// answer is being made is noticed at once and reported through on_gone(); one that reads too slowly
// loses its connection when its buffer is full. Requests of one connection are answered in order,
// one at a time; pipelined ones wait in a bounded buffer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace thimble::net {

// Whether they are the same in any case of ASCII letters: names of headers, hosts and schemes.
bool same_name(std::string_view a, std::string_view b);

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method;               // as sent: "GET"
  std::string path;                 // before '?', still percent-encoded
  std::string query;                // after '?'
  std::vector<HttpHeader> headers;  // in the order sent
  std::string body;
  bool http_1_1 = true;    // false: HTTP/1.0, which knows no chunks
  bool keep_alive = true;  // the client will send more on this connection

  // First value of that name, in any case; empty when there is none.
  std::string_view header(std::string_view name) const;
};

// Length, connection and chunk headers are the server's affair and must not be among `headers`.
struct HttpResponse {
  uint32_t status = 200;
  std::vector<HttpHeader> headers;
  std::string body;
};

// "Not Found"; "Status" for numbers we never send.
std::string_view reason_phrase(uint32_t status);

// "%2F" -> "/"; what is no escape stays as it is.
std::string percent_decode(std::string_view text);

struct StreamOptions {
  std::string heartbeat;      // sent whenever nothing else was for so long; empty: never
  uint32_t heartbeat_ms = 0;  // also the longest time that the head is held back
};

// One request and the way to answer it: either respond(), or begin_stream(), any number of write()
// and then end_stream() or abort_stream(). Calls after the last word are ignored. All methods may
// be called from any thread and return at once. An exchange dropped without an answer becomes a
// 500.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;

  virtual void respond(HttpResponse response) = 0;

  // The head (status and headers of `head`) leaves with the first write() or heartbeat. Writes that
  // follow each other within some milliseconds may leave together.
  virtual void begin_stream(HttpResponse head, StreamOptions options) = 0;
  // False: nobody reads any more (the client left, or its buffer was full and it was dropped).
  virtual bool write(std::string bytes) = 0;
  virtual void end_stream() = 0;
  // Answers `unsent` if no byte has left yet; else ends the stream with `tail`.
  virtual void abort_stream(HttpResponse unsent, std::string tail) = 0;

  // Runs `gone` once if the client leaves before the answer is complete; now if it already has. May
  // run on the I/O thread: it must return at once. Released when the answer is complete.
  virtual void on_gone(std::function<void()> gone) = 0;
};

// Called on the I/O thread; must return at once and must not throw.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

struct HttpLimits {
  uint64_t header_bytes = 32 << 10;      // start line and headers -> 431
  uint64_t body_bytes = 32 << 20;        // one body -> 413
  uint64_t bodies_bytes = 512ULL << 20;  // all bodies held at once -> 503
  uint64_t pipelined_bytes = 64 << 10;   // read ahead of the request being answered
  uint64_t unsent_bytes = 1 << 20;       // of one stream; a reader that lets it fill is dropped
  uint32_t connections = 1024;           // -> 503
  uint32_t idle_ms = 75'000;             // between requests
  uint32_t header_ms = 15'000;           // first byte to end of headers -> 408
  uint32_t body_ms = 30'000;             // between two pieces of a body -> 408
  uint32_t stalled_write_ms = 30'000;    // nothing could be sent for so long: dropped
};

// What to answer when the server itself refuses: a malformed request, a limit, no answer.
using HttpRefuser = std::function<HttpResponse(uint32_t status, const std::string& message)>;

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // a name or an address; "0.0.0.0" and "::" mean all
  uint16_t port = 0;               // 0: any free one
  HttpLimits limits;
  HttpRefuser refuser;  // empty: the message as plain text
};

class HttpServer {
 public:
  // Takes the address, so that a busy port is known before anything slow begins. Clients may
  // connect from here on, but wait until start().
  static Result<std::unique_ptr<HttpServer>> listen(const HttpServerOptions& options);
  ~HttpServer();  // stop(0)

  // REQUIRES: not started before.
  void start(HttpHandler handler);

  // No new connections or requests; idle connections close now, the others when their answer is
  // complete or after `grace_ms`. Blocks; afterwards the handler is not called any more.
  void stop(uint32_t grace_ms);

  uint16_t port() const;
  bool only_this_machine() const;  // the address is a loopback one
  std::string url() const;         // "http://127.0.0.1:8080"

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace thimble::net
