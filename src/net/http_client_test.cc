// Aim: the client sends what it is told and gives back what came, and every way of failing is an
// error that says which. Method: our own server, and a listener that says exact bytes or nothing.
#include "net/http_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "base/check.h"

namespace thimble::net {
namespace {

using ::testing::HasSubstr;

HttpUrl at(uint16_t port) {
  return {.host = "127.0.0.1", .port = std::to_string(port), .path = ""};
}

// Accepts one connection, reads what comes first, says `bytes` and closes; with nothing to say it
// keeps the client waiting.
class Listener {
 public:
  explicit Listener(std::string bytes) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    CHECK_EQ(::bind(fd_, plain, size), 0);
    CHECK_EQ(::listen(fd_, 1), 0);
    CHECK_EQ(::getsockname(fd_, plain, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, bytes = std::move(bytes)] {
      const int peer = ::accept(fd_, nullptr, nullptr);
      char first[4096];
      CHECK(::recv(peer, first, sizeof(first), 0) > 0);
      CHECK_EQ(::send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL),
               static_cast<ssize_t>(bytes.size()));
      if (bytes.empty()) CHECK_EQ(::recv(peer, first, sizeof(first), 0), 0);  // until they leave
      ::close(peer);
    });
  }
  ~Listener() {
    thread_.join();
    ::close(fd_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  uint16_t port() const { return port_; }

 private:
  int fd_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

std::string error_of(const std::string& answer, HttpCall call = {}) {
  const Listener listener(answer);
  const auto got = http_call(at(listener.port()), call);
  EXPECT_FALSE(got.has_value());
  return got ? "" : got.error().message;
}

TEST(HttpUrl, Parses) {
  const HttpUrl plain = *parse_http_url("http://localhost:8080/v1/");
  EXPECT_EQ(plain.host, "localhost");
  EXPECT_EQ(plain.port, "8080");
  EXPECT_EQ(plain.path, "/v1");
  EXPECT_EQ(plain.authority(), "localhost:8080");
  EXPECT_EQ(parse_http_url("http://a")->port, "80");
  EXPECT_EQ(parse_http_url("http://a/")->path, "");
  const HttpUrl v6 = *parse_http_url("http://[::1]:9");
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(v6.authority(), "[::1]:9");
}

TEST(HttpUrl, RefusesWhatItCannotSpeak) {
  const auto https = parse_http_url("https://example.com/v1");
  ASSERT_FALSE(https);
  EXPECT_EQ(https.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(https.error().message, HasSubstr("https is not spoken"));
  for (const char* url : {"", "localhost:80", "http://", "http://:80", "http://a:", "http://a:0",
                          "http://a:65536", "http://a:8o", "http://[::1", "http://[::1]8",
                          "http://a b", "http://me@a", "http://a?x=1", "http://a\r\nX: 1"}) {
    const auto parsed = parse_http_url(url);
    ASSERT_FALSE(parsed) << url;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument) << url;
  }
}

TEST(HttpClient, HandsOverTheBodyAsItComes) {
  std::string told;
  HttpCall call;
  call.on_body = [&](std::string_view part) { told += part; };
  const Listener chunked(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\none\r\n4\r\n two\r\n0\r\n\r\n");
  EXPECT_EQ(http_call(at(chunked.port()), call)->body, "");
  EXPECT_EQ(std::exchange(told, {}), "one two");
  const Listener refusing("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone");
  EXPECT_EQ(http_call(at(refusing.port()), call)->body, "none") << "the reason of a refusal";
  EXPECT_EQ(told, "");
}

TEST(HttpClient, MakesSeveralCallsAtOnce) {
  auto server = HttpServer::listen({});
  ASSERT_TRUE(server);
  std::vector<std::shared_ptr<HttpExchange>> held;
  std::mutex mutex;
  // Answers only once all are there.
  (*server)->start([&](const std::shared_ptr<HttpExchange>& exchange) {
    const std::lock_guard lock(mutex);
    held.push_back(exchange);
    if (held.size() < 5) return;
    for (const auto& one : held) {
      one->respond({200, {}, one->request().path});
    }
  });
  std::vector<HttpCall> calls(5);
  for (size_t i = 0; i < calls.size(); ++i) calls[i].target = fmt::format("/{}", i);
  const auto answers = http_calls(at((*server)->port()), calls);
  ASSERT_EQ(answers.size(), calls.size());
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(answers[i]->body, calls[i].target);
  EXPECT_TRUE(http_calls(at((*server)->port()), {}).empty());
}

TEST(HttpClient, SendsAndReceivesWhole) {
  auto server = HttpServer::listen({});
  ASSERT_TRUE(server);
  (*server)->start([](const std::shared_ptr<HttpExchange>& exchange) {
    const HttpRequest& request = exchange->request();
    const std::string said = fmt::format("{} {}?{} {} {}", request.method, request.path,
                                         request.query, request.header("X-One"), request.body);
    if (request.path == "/whole") return exchange->respond({418, {{"X-Two", "2"}}, said});
    exchange->begin_stream({200, {}, ""}, {});  // in chunks
    exchange->write(said.substr(0, 5));
    exchange->write(said.substr(5));
    exchange->end_stream();
  });
  HttpCall call{.method = "POST", .target = "/whole?a=b", .headers = {{"X-One", "1"}}};
  call.body = std::string(1 << 20, 'b');
  const auto whole = http_call(at((*server)->port()), call);
  ASSERT_TRUE(whole) << whole.error().describe();
  EXPECT_EQ(whole->status, 418u);
  EXPECT_EQ(whole->body, "POST /whole?a=b 1 " + call.body);
  EXPECT_TRUE(std::ranges::any_of(
      whole->headers, [](const HttpHeader& h) { return h.name == "X-Two" && h.value == "2"; }));
  call.target = "/chunks";
  call.body.resize(1000);
  const auto chunks = http_call(at((*server)->port()), call);
  ASSERT_TRUE(chunks) << chunks.error().describe();
  EXPECT_EQ(chunks->body, "POST /chunks? 1 " + call.body);
}

TEST(HttpClient, AnswersThatEndWithTheConnection) {
  const Listener listener("HTTP/1.1 200 OK\r\n\r\nall of it");
  const auto got = http_call(at(listener.port()), {});
  ASSERT_TRUE(got) << got.error().describe();
  EXPECT_EQ(got->body, "all of it");
}

TEST(HttpClient, EveryFailureSaysWhich) {
  EXPECT_THAT(error_of("nonsense\r\n\r\n"), HasSubstr("no answer from http://127.0.0.1:"));
  EXPECT_THAT(error_of("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
              HasSubstr("the connection ended first"));
  EXPECT_THAT(
      error_of("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789", {.answer_bytes = 8}),
      HasSubstr("larger than 8 bytes"));
  // Were it the time to connect that is over, it would be so after an hour.
  EXPECT_THAT(error_of("", {.connect_ms = 3'600'000, .answer_ms = 50}),
              HasSubstr("it took more than 0.05 s"));
}

TEST(HttpClient, NobodyThere) {
  uint16_t port = 0;
  {
    auto server = HttpServer::listen({});
    ASSERT_TRUE(server);
    port = (*server)->port();
  }
  const auto got = http_call(at(port), {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(got.error().message, HasSubstr("cannot reach"));
}

}  // namespace
}  // namespace thimble::net
