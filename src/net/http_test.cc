// Aim: bytes become requests, or refusals with the right status, however they are cut.
// Method: the parser alone, fed whole, byte by byte and cut at each position; hostile heads.
#include "net/http.h"

#include <gtest/gtest.h>

#include "net/internal/http_parser.h"

namespace thimble::net {
namespace {

constexpr std::string_view kPost =
    "POST /v1/x?y=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello";
constexpr std::string_view kChunked =
    "POST /v1/x?y=1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
    "2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: t\r\n\r\n";

// As a connection does it: what was not used is offered again with what follows.
tl::expected<HttpRequest, HttpRefusal> parse(std::string_view bytes, size_t piece,
                                             const HttpLimits& limits = {}) {
  HttpParser parser(limits);
  std::string pending;
  for (size_t at = 0; at < bytes.size() && !parser.done(); at += piece) {
    pending += bytes.substr(at, piece);
    const auto used = parser.feed(pending);
    if (!used) return tl::unexpected(used.error());
    pending.erase(0, *used);
  }
  if (!parser.done()) return tl::unexpected(HttpRefusal{0, "not done"});
  return parser.take();
}

uint32_t status_of(std::string_view bytes, const HttpLimits& limits = {}) {
  const auto parsed = parse(bytes, bytes.size(), limits);
  return parsed ? 200 : parsed.error().status;
}

TEST(HttpParser, AnyCutGivesTheSameRequest) {
  for (const std::string_view text : {kPost, kChunked}) {
    for (size_t piece = 1; piece <= text.size(); ++piece) {
      const auto request = parse(text, piece);
      ASSERT_TRUE(request) << piece << ": " << request.error().message;
      EXPECT_EQ(request->method, "POST");
      EXPECT_EQ(request->path, "/v1/x");
      EXPECT_EQ(request->query, "y=1");
      EXPECT_EQ(request->body, "hello");
      EXPECT_EQ(request->header("x-a"), "b");
      EXPECT_TRUE(request->keep_alive);
    }
  }
}

TEST(HttpParser, LeavesTheNextRequestAlone) {
  const std::string two = std::string(kPost) + "GET / HT";
  HttpParser parser({});
  EXPECT_EQ(*parser.feed(two), kPost.size());
  EXPECT_TRUE(parser.done());
}

TEST(HttpParser, RefusesWithAStatus) {
  EXPECT_EQ(status_of("hello\r\n\r\n"), 400u);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400u) << "no Host";
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400u);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 200u);
  EXPECT_EQ(status_of("GET / HTTP/3.0\r\nHost: a\r\n\r\n"), 505u);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n"), 400u);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"), 400u);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"), 400u);
}

// Two lengths are how one request is smuggled inside another.
TEST(HttpParser, RefusesTwoLengths) {
  EXPECT_EQ(
      status_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
      400u);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            400u);
}

TEST(HttpParser, Limits) {
  HttpLimits limits;
  limits.header_bytes = 200;
  limits.body_bytes = 10;
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(status_of(head + "X: " + std::string(300, 'x') + "\r\n\r\n", limits), 431u);
  EXPECT_EQ(status_of(head + "X: " + std::string(300, 'x'), limits), 431u) << "without its end";
  EXPECT_EQ(status_of(head + "Content-Length: 10\r\n\r\n0123456789", limits), 200u);
  EXPECT_EQ(status_of(head + "Content-Length: 11\r\n\r\n", limits), 413u) << "before it arrives";
  EXPECT_EQ(
      status_of(head + "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n", limits),
      413u);
}

TEST(HttpParser, KeepAliveAndAbsoluteForm) {
  EXPECT_FALSE(parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 99)->keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n", 99)->keep_alive);
  EXPECT_EQ(parse("GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", 99)->path, "/b");
  EXPECT_EQ(parse("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", 99)->path, "/");
}

TEST(Http, PercentDecode) {
  EXPECT_EQ(percent_decode("a%2Fb%20c"), "a/b c");
  EXPECT_EQ(percent_decode("%"), "%");
  EXPECT_EQ(percent_decode("%2"), "%2");
  EXPECT_EQ(percent_decode("%zz%41"), "%zzA");
}

}  // namespace
}  // namespace thimble::net
