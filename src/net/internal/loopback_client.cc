#include "net/internal/loopback_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace thimble::net {
namespace {

// First header of that name in a head's text.
std::string find_header(std::string_view head, std::string_view name) {
  HttpRequest holder;
  size_t line = head.find("\r\n");
  while (line != std::string_view::npos && line + 2 < head.size()) {
    const size_t begin = line + 2;
    line = head.find("\r\n", begin);
    const std::string_view text = head.substr(begin, line - begin);
    const size_t colon = text.find(": ");
    if (colon == std::string_view::npos) continue;
    holder.headers.push_back(
        {std::string(text.substr(0, colon)), std::string(text.substr(colon + 2))});
  }
  return std::string(holder.header(name));
}

}  // namespace

std::string Answer::header(std::string_view name) const { return find_header(head, name); }

LoopbackClient::LoopbackClient(uint16_t port, int timeout_ms) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return;
  const timeval timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1000};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) close();
}

LoopbackClient::~LoopbackClient() { close(); }

void LoopbackClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void LoopbackClient::close_sending() { ::shutdown(fd_, SHUT_WR); }

bool LoopbackClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool LoopbackClient::fill() {
  char chunk[16 << 10];
  const ssize_t got = ::recv(fd_, chunk, sizeof(chunk), 0);
  if (got <= 0) return false;
  buffer_.append(chunk, static_cast<size_t>(got));
  return true;
}

bool LoopbackClient::take_until(std::string_view mark, std::string* out) {
  size_t at = buffer_.find(mark);
  while (at == std::string::npos) {
    if (!fill()) return false;
    at = buffer_.find(mark);
  }
  return take(at + mark.size(), out);
}

bool LoopbackClient::take(size_t bytes, std::string* out) {
  while (buffer_.size() < bytes) {
    if (!fill()) return false;
  }
  out->append(buffer_, 0, bytes);
  buffer_.erase(0, bytes);
  return true;
}

std::string LoopbackClient::receive_some() {
  if (buffer_.empty() && !fill()) return {};
  return std::exchange(buffer_, {});
}

bool LoopbackClient::closed_by_server() {
  char byte;
  return buffer_.empty() && ::recv(fd_, &byte, 1, 0) == 0;
}

Answer LoopbackClient::receive(bool head_only) {
  Answer answer;
  if (!take_until("\r\n\r\n", &answer.head)) return answer;
  const uint32_t status = static_cast<uint32_t>(std::strtoul(answer.head.c_str() + 9, nullptr, 10));
  const std::string length = answer.header("Content-Length");
  bool whole = true;
  if (head_only || status < 200 || status == 204 || status == 304) {
    // No body.
  } else if (answer.header("Transfer-Encoding") == "chunked") {
    while (whole) {
      std::string size_line;
      std::string chunk;
      whole = take_until("\r\n", &size_line);
      const size_t size = whole ? std::strtoul(size_line.c_str(), nullptr, 16) : 0;
      whole = whole && take(size + 2, &chunk);
      if (whole) answer.body.append(chunk, 0, size);
      if (size == 0) break;
    }
  } else if (!length.empty()) {
    whole = take(std::strtoul(length.c_str(), nullptr, 10), &answer.body);
  } else {
    while (fill()) {
    }
    answer.body = std::exchange(buffer_, {});
  }
  if (whole) answer.status = status;
  return answer;
}

std::string request_text(std::string_view method, std::string_view target, std::string_view body,
                         const std::vector<HttpHeader>& headers) {
  std::string out = fmt::format("{} {} HTTP/1.1\r\n", method, target);
  const bool has_host = std::any_of(headers.begin(), headers.end(),
                                    [](const HttpHeader& h) { return h.name == "Host"; });
  if (!has_host) out += "Host: localhost\r\n";
  for (const HttpHeader& h : headers) out += fmt::format("{}: {}\r\n", h.name, h.value);
  if (!body.empty() || method == "POST") out += fmt::format("Content-Length: {}\r\n", body.size());
  out += "\r\n";
  return out.append(body);
}

Answer ask(uint16_t port, std::string_view method, std::string_view target, std::string_view body,
           const std::vector<HttpHeader>& headers) {
  LoopbackClient client(port);
  client.send(request_text(method, target, body, headers));
  return client.receive(method == "HEAD");
}

}  // namespace thimble::net
