#include "net/http_client.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <exception>
#include <memory>

#include <utility>  // before Asio 1.74, which forgets it

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

namespace thimble::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr uint32_t kPortMax = 65'535;
constexpr uint32_t kHeaderBytes = 64 << 10;

// Of 1 to 65,535 in digits; else 0.
uint16_t port_number(std::string_view text) {
  if (text.empty() || text.size() > 5) return 0;
  uint32_t port = 0;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return 0;
    port = port * 10 + static_cast<uint32_t>(c - '0');
  }
  return port <= kPortMax ? static_cast<uint16_t>(port) : 0;
}

// One exchange: resolve, connect, write, read; the first error ends it.
class Exchange {
 public:
  Exchange(asio::io_context& io, const HttpUrl& url, const HttpCall& call)
      : url_(url), call_(call), resolver_(io), socket_(io), timer_(io) {
    request_.version(11);
    request_.method_string(call.method);
    request_.target(call.target);
    for (const HttpHeader& header : call.headers) request_.insert(header.name, header.value);
    request_.set(http::field::host, url.authority());
    request_.set(http::field::connection, "close");
    request_.body() = call.body;
    request_.prepare_payload();
    parser_.body_limit(call.answer_bytes);
    parser_.header_limit(kHeaderBytes);
  }

  // What follows runs on the context.
  void start() {
    expect_within(call_.connect_ms);
    error_code named;
    const auto address = asio::ip::make_address(url_.host, named);
    if (!named) return connect(std::array{tcp::endpoint(address, port_number(url_.port))});
    resolver_.async_resolve(url_.host, url_.port, [this](error_code error, const auto& found) {
      if (error) return stop("cannot find", error);
      connect(found);
    });
  }

  // Once the context has nothing left to do.
  Result<HttpResponse> result() const {
    if (!failed_.empty()) return tl::unexpected(failure());
    const auto& answer = parser_.get();
    HttpResponse response;
    response.status = answer.result_int();
    for (const auto& field : answer) {
      response.headers.push_back({std::string(field.name_string()), std::string(field.value())});
    }
    response.body = answer.body();
    return response;
  }

 private:
  // One timer for all that is left: one for each read would cost more than the read.
  void expect_within(uint32_t ms) {
    timer_.expires_after(std::chrono::milliseconds(ms));
    timer_.async_wait([this](error_code error) {
      if (error || timer_.expiry() > asio::steady_timer::clock_type::now()) return;
      late_ = true;
      resolver_.cancel();
      error_code ignored;
      socket_.close(ignored);
    });
  }
  template <class Endpoints>
  void connect(const Endpoints& found) {
    asio::async_connect(socket_, found, [this](error_code error, const tcp::endpoint&) {
      if (error) return stop("cannot reach", error);
      connected_ = true;
      expect_within(call_.answer_ms);
      write();
    });
  }
  void write() {
    http::async_write(socket_, request_, [this](error_code error, size_t) {
      // A server may answer, with a refusal, before it has read all.
      if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset) {
        return stop("cannot write to", error);
      }
      read();
    });
  }
  // The head by itself: Beast 1.74 forgets that the body is too large when both come at once.
  void read() {
    http::async_read_header(socket_, buffer_, parser_, [this](error_code error, size_t) {
      if (error) return stop("no answer from", error);
      read_body();
    });
  }
  void read_body() {
    tell_body();
    if (parser_.is_done()) {
      error_code ignored;
      socket_.shutdown(tcp::socket::shutdown_both, ignored);
      timer_.cancel();
      return;
    }
    http::async_read_some(socket_, buffer_, parser_, [this](error_code error, size_t) {
      if (error) return stop("no whole answer from", error);
      read_body();
    });
  }
  void tell_body() {
    std::string& body = parser_.get().body();
    if (!call_.on_body || body.empty() || parser_.get().result_int() != 200) return;
    call_.on_body(body);
    body.clear();
  }
  void stop(const char* what, error_code error) {
    failed_ = what;
    error_ = error;
    timer_.cancel();
  }

  Error failure() const {
    std::string reason = error_.message();
    if (late_) {
      reason = fmt::format("it took more than {} s",
                           (connected_ ? call_.answer_ms : call_.connect_ms) / 1000.0);
    } else if (error_ == http::error::body_limit) {
      reason = fmt::format("it is larger than {} bytes", call_.answer_bytes);
    } else if (error_ == http::error::end_of_stream || error_ == http::error::partial_message) {
      reason = "the connection ended first";
    }
    return {connected_ ? ErrorCode::kIo : ErrorCode::kUnavailable,
            fmt::format("{} http://{}: {}", failed_, url_.authority(), reason),
            {}};
  }

  const HttpUrl& url_;
  const HttpCall& call_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  bool connected_ = false;
  bool late_ = false;
  std::string failed_;
  error_code error_;
};

}  // namespace

std::string HttpUrl::authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<HttpUrl> parse_http_url(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://")) {
    return base::fail(ErrorCode::kUnsupported,
                      "{}: https is not spoken here; use the server's plain http:// address, or a "
                      "local proxy or SSH tunnel that ends TLS",
                      url);
  }
  const auto bad = [&](const char* why) {
    return base::fail(ErrorCode::kInvalidArgument, "\"{}\" {}; expected http://HOST[:PORT][/PATH]",
                      url, why);
  };
  if (!url.starts_with(kScheme)) return bad("does not begin with http://");
  const bool clean = std::ranges::all_of(url, [](char c) { return c > ' ' && c < 0x7f; });
  if (!clean || url.find_first_of("?#@\\") != std::string_view::npos) {
    return bad("has characters that do not belong there");
  }
  const std::string_view rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  HttpUrl out;
  out.path = rest.substr(slash);
  while (out.path.ends_with('/')) out.path.pop_back();
  size_t host_end = authority.rfind(':');
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return bad("has an address without its ]");
    out.host = authority.substr(1, bracket - 1);
    host_end = bracket + 1;
  } else {
    host_end = std::min(host_end, authority.size());
    out.host = authority.substr(0, host_end);
  }
  if (out.host.empty()) return bad("names no host");
  authority.remove_prefix(host_end);
  if (authority.empty()) return out;
  if (authority.front() != ':' || port_number(authority.substr(1)) == 0)
    return bad("has no valid port");
  out.port = authority.substr(1);
  return out;
}

std::vector<Result<HttpResponse>> http_calls(const HttpUrl& url, std::span<const HttpCall> calls) {
  std::vector<Result<HttpResponse>> out;
  try {
    asio::io_context io(1);
    std::vector<std::unique_ptr<Exchange>> exchanges;
    for (const HttpCall& call : calls) {
      exchanges.push_back(std::make_unique<Exchange>(io, url, call));
      exchanges.back()->start();
    }
    io.run();
    for (const auto& exchange : exchanges) out.push_back(exchange->result());
  } catch (const std::exception& thrown) {
    out.assign(calls.size(),
               base::fail(ErrorCode::kInternal, "http://{}: {}", url.authority(), thrown.what()));
  }
  return out;
}

Result<HttpResponse> http_call(const HttpUrl& url, const HttpCall& call) {
  return std::move(http_calls(url, {&call, 1})[0]);
}

}  // namespace thimble::net
