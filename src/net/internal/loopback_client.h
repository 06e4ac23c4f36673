// A blocking client that sends exactly the bytes it is given, for tests of servers on this machine.
//
// One thread at a time. Every wait ends after `timeout_ms`, so that a broken server fails a test
// instead of hanging it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace thimble::net {

struct Answer {
  uint32_t status = 0;  // 0: the connection ended first
  std::string head;     // status line and headers
  std::string body;     // chunks joined
  std::string header(std::string_view name) const;
};

class LoopbackClient {
 public:
  explicit LoopbackClient(uint16_t port, int timeout_ms = 10'000);
  ~LoopbackClient();
  LoopbackClient(const LoopbackClient&) = delete;
  LoopbackClient& operator=(const LoopbackClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  bool send(std::string_view bytes);
  // One answer; `head_only` for HEAD. Interim 1xx answers come out as answers of their own.
  Answer receive(bool head_only = false);
  // Whatever is there, at least a byte; empty when the connection ended or time ran out.
  std::string receive_some();
  // True once the server has closed the connection.
  bool closed_by_server();
  void close_sending();
  void close();

 private:
  bool fill();  // more into buffer_
  bool take_until(std::string_view mark, std::string* out);
  bool take(size_t bytes, std::string* out);
  int fd_ = -1;
  std::string buffer_;
};

// "POST /x HTTP/1.1" with Content-Length, and Host unless it is among the headers.
std::string request_text(std::string_view method, std::string_view target,
                         std::string_view body = "", const std::vector<HttpHeader>& headers = {});

// Opens a connection, sends one request and closes.
Answer ask(uint16_t port, std::string_view method, std::string_view target,
           std::string_view body = "", const std::vector<HttpHeader>& headers = {});

}  // namespace thimble::net
