// Aim: what http.h promises, over real loopback sockets. Method: a handler that the test scripts, a
// client that sends exact bytes; each rule broken by a client once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <condition_variable>
#include <deque>
#include <thread>

#include "base/clock.h"
#include "net/http.h"
#include "net/internal/loopback_client.h"

namespace thimble::net {
namespace {

using Held = std::shared_ptr<HttpExchange>;

// A server whose handler answers "/echo" at once and hands everything else to the test.
class HttpServerTest : public testing::Test {
 protected:
  void serve(HttpLimits limits = {}) {
    HttpServerOptions options;
    options.limits = limits;
    auto server = HttpServer::listen(options);
    ASSERT_TRUE(server) << server.error().describe();
    server_ = std::move(*server);
    server_->start([this](Held exchange) {
      if (exchange->request().path == "/echo") {
        return exchange->respond({200, {{"Content-Type", "text/plain"}}, exchange->request().body});
      }
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(exchange));
      arrived_.notify_all();
    });
  }

  // The next request that is not "/echo"; null after 5 s.
  Held next() {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::seconds(5), [&] { return !held_.empty(); });
    if (held_.empty()) return nullptr;
    Held first = std::move(held_.front());
    held_.pop_front();
    return first;
  }

  uint16_t port() const { return server_->port(); }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Held> held_;
  std::unique_ptr<HttpServer> server_;
};

bool wait_until(const std::function<bool()>& done, int64_t ms = 5000) {
  const int64_t deadline = base::monotonic_us() + ms * 1000;
  while (!done()) {
    if (base::monotonic_us() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST_F(HttpServerTest, KeepsTheConnection) {
  serve();
  LoopbackClient client(port());
  for (const char* body : {"one", "", "three"}) {
    client.send(request_text("POST", "/echo", body));
    const Answer answer = client.receive();
    EXPECT_EQ(answer.status, 200u);
    EXPECT_EQ(answer.body, body);
    EXPECT_EQ(answer.header("Connection"), "keep-alive");
  }
  client.send(request_text("POST", "/echo", "x", {{"Connection", "close"}}));
  EXPECT_EQ(client.receive().body, "x");
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  serve();
  LoopbackClient client(port());
  client.send(request_text("GET", "/slow") + request_text("POST", "/echo", "second") +
              request_text("POST", "/echo", "third"));
  const Held slow = next();
  ASSERT_TRUE(slow);
  slow->respond({200, {}, "first"});
  EXPECT_EQ(client.receive().body, "first");
  EXPECT_EQ(client.receive().body, "second");
  EXPECT_EQ(client.receive().body, "third");
}

TEST_F(HttpServerTest, HeadHasLengthButNoBody) {
  serve();
  LoopbackClient client(port());
  client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
  next()->respond({200, {}, "12345"});
  const Answer answer = client.receive(true);
  EXPECT_EQ(answer.header("Content-Length"), "5");
  client.send(request_text("POST", "/echo", "next"));
  EXPECT_EQ(client.receive().body, "next");
}

TEST_F(HttpServerTest, SaysContinueOnlyToWelcomeBodies) {
  serve({.body_bytes = 10});
  LoopbackClient client(port());
  const std::string head = "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n";
  client.send(head + "Content-Length: 2\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100u);
  client.send("hi");
  EXPECT_EQ(client.receive().body, "hi");
  client.send(head + "Content-Length: 11\r\n\r\n");
  EXPECT_EQ(client.receive().status, 413u);
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpServerTest, RefusalReachesAClientThatIsStillSending) {
  serve({.body_bytes = 1000});
  LoopbackClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n");
  client.send(std::string(500'000, 'x'));
  EXPECT_EQ(client.receive().status, 413u);
}

TEST_F(HttpServerTest, MalformedGets400AndTheServerLives) {
  serve();
  for (const std::string_view bytes :
       {"\x16\x03\x01\x02\x03\x04\r\n\r\n", "GET\r\n\r\n", "{}\n\n\r\n\r\n"}) {
    LoopbackClient client(port());
    client.send(bytes);
    EXPECT_EQ(client.receive().status, 400u);
    EXPECT_TRUE(client.closed_by_server());
  }
  LoopbackClient huge(port());
  huge.send("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(100'000, 'x'));
  EXPECT_EQ(huge.receive().status, 431u);
  EXPECT_EQ(ask(port(), "POST", "/echo", "ok").body, "ok");
}

TEST_F(HttpServerTest, StreamsInChunks) {
  serve();
  LoopbackClient client(port());
  client.send(request_text("GET", "/stream"));
  const Held exchange = next();
  exchange->begin_stream({200, {{"Content-Type", "text/event-stream"}}, {}}, {});
  EXPECT_TRUE(exchange->write("one "));
  EXPECT_TRUE(exchange->write("two"));
  exchange->end_stream();
  const Answer answer = client.receive();
  EXPECT_EQ(answer.body, "one two");
  EXPECT_EQ(answer.header("transfer-encoding"), "chunked");
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_EQ(client.receive_some(), "");  // and closed it is
}

// The body of a whole answer in chunks.
std::string unchunked(std::string_view answer) {
  std::string body;
  for (std::string_view rest = answer.substr(answer.find("\r\n\r\n") + 4); !rest.empty();) {
    size_t size = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), size, 16);
    const size_t begin = rest.find("\r\n") + 2;
    body += rest.substr(begin, size);
    rest.remove_prefix(begin + size + 2);
  }
  return body;
}

// Many that wait for the I/O thread are one chunk; none is lost between two of its looks.
TEST_F(HttpServerTest, PiecesOfAStreamArriveInTheirOrder) {
  serve();
  LoopbackClient client(port());
  client.send(request_text("GET", "/stream"));
  const Held exchange = next();
  exchange->begin_stream({200, {}, {}}, {});
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string piece = std::to_string(i) + ";";
    EXPECT_TRUE(exchange->write(piece));
    expected += piece;
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::string seen;
  while (seen.find("4999;") == std::string::npos) seen += client.receive_some();
  exchange->write("last");
  exchange->end_stream();
  while (!seen.ends_with("0\r\n\r\n")) seen += client.receive_some();
  EXPECT_EQ(unchunked(seen), expected + "last");
}

TEST_F(HttpServerTest, OldClientsGetStreamsWithoutChunks) {
  serve();
  LoopbackClient client(port());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  const Held exchange = next();
  exchange->begin_stream({200, {}, {}}, {});
  exchange->write("plain");
  exchange->end_stream();
  const Answer answer = client.receive();
  EXPECT_EQ(answer.header("transfer-encoding"), "");
  EXPECT_EQ(answer.body, "plain");
}

TEST_F(HttpServerTest, AbortIsAStatusBeforeTheFirstByteAndATailAfter) {
  serve();
  LoopbackClient early(port());
  early.send(request_text("GET", "/stream"));
  Held exchange = next();
  exchange->begin_stream({200, {}, {}}, {});
  exchange->abort_stream({503, {}, "sorry"}, "tail");
  const Answer refused = early.receive();
  EXPECT_EQ(refused.status, 503u);
  EXPECT_EQ(refused.body, "sorry");

  LoopbackClient late(port());
  late.send(request_text("GET", "/stream"));
  exchange = next();
  exchange->begin_stream({200, {}, {}}, {});
  exchange->write("begun ");
  exchange->abort_stream({503, {}, "sorry"}, "tail");
  const Answer begun = late.receive();
  EXPECT_EQ(begun.status, 200u);
  EXPECT_EQ(begun.body, "begun tail");
}

TEST_F(HttpServerTest, HeartbeatsSpeakInTheSilence) {
  serve();
  LoopbackClient client(port());
  client.send(request_text("GET", "/stream"));
  const Held exchange = next();
  exchange->begin_stream({200, {}, {}}, {": alive\n\n", 30});
  std::string seen;
  while (seen.find(": alive\n\n") == std::string::npos) {
    const std::string more = client.receive_some();
    ASSERT_FALSE(more.empty());
    seen += more;
  }
  EXPECT_TRUE(seen.starts_with("HTTP/1.1 200 OK"));
  exchange->end_stream();
}

TEST_F(HttpServerTest, NoticesWhoLeavesWhileTheAnswerIsMade) {
  serve();
  for (const bool stream : {false, true}) {
    LoopbackClient client(port());
    client.send(request_text("GET", "/slow"));
    const Held exchange = next();
    std::atomic<bool> gone{false};
    if (stream) exchange->begin_stream({200, {}, {}}, {});
    exchange->on_gone([&] { gone = true; });
    client.close();
    EXPECT_TRUE(wait_until([&] { return gone.load(); })) << stream;
    EXPECT_FALSE(exchange->write("x"));
  }
}

TEST_F(HttpServerTest, NoticesWhoLeavesBehindManyPipelinedRequests) {
  serve({.pipelined_bytes = 1000});
  LoopbackClient client(port());
  client.send(request_text("GET", "/slow") + request_text("POST", "/echo", std::string(5000, 'x')));
  const Held exchange = next();
  std::atomic<bool> gone{false};
  exchange->on_gone([&] { gone = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(gone);
  client.close();
  EXPECT_TRUE(wait_until([&] { return gone.load(); }));
}

TEST_F(HttpServerTest, AnswersWhoOnlyClosedItsSendingSide) {
  serve();
  LoopbackClient client(port());
  client.send(request_text("POST", "/echo", "still here"));
  client.close_sending();
  EXPECT_EQ(client.receive().body, "still here");
}

TEST_F(HttpServerTest, ASlowReaderIsDropped) {
  serve({.unsent_bytes = 256 << 10});
  LoopbackClient client(port());
  client.send(request_text("GET", "/stream"));
  const Held exchange = next();
  std::atomic<bool> gone{false};
  exchange->begin_stream({200, {}, {}}, {});
  exchange->on_gone([&] { gone = true; });
  const std::string chunk(16 << 10, 'x');
  uint64_t accepted = 0;
  while (accepted < 1ULL << 30 && exchange->write(chunk)) accepted += chunk.size();
  EXPECT_LT(accepted, 64ULL << 20) << "more than the sockets' own buffers";
  EXPECT_TRUE(gone);
  EXPECT_EQ(ask(port(), "POST", "/echo", "ok").body, "ok");
}

TEST_F(HttpServerTest, AReaderThatStopsIsDropped) {
  serve({.unsent_bytes = 1 << 30, .stalled_write_ms = 100});
  LoopbackClient client(port());
  client.send(request_text("GET", "/stream"));
  const Held exchange = next();
  std::atomic<bool> gone{false};
  exchange->begin_stream({200, {}, {}}, {});
  exchange->on_gone([&] { gone = true; });
  for (int i = 0; i < 32; ++i) exchange->write(std::string(1 << 20, 'x'));
  EXPECT_TRUE(wait_until([&] { return gone.load(); }));
}

TEST_F(HttpServerTest, ConnectionsOverTheLimitGet503) {
  serve({.connections = 2});
  LoopbackClient a(port());
  LoopbackClient b(port());
  a.send(request_text("POST", "/echo", "a"));
  b.send(request_text("POST", "/echo", "b"));
  EXPECT_EQ(a.receive().body, "a");
  EXPECT_EQ(b.receive().body, "b");
  EXPECT_EQ(ask(port(), "POST", "/echo", "c").status, 503u);
  a.close();
  EXPECT_TRUE(wait_until([&] { return ask(port(), "POST", "/echo", "c").status == 200; }));
}

TEST_F(HttpServerTest, BodiesShareOneBudget) {
  serve({.body_bytes = 1000, .bodies_bytes = 1500});
  LoopbackClient first(port());
  first.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx");
  EXPECT_TRUE(wait_until(
      [&] { return ask(port(), "POST", "/echo", std::string(900, 'y')).status == 503; }));
  first.close();
  EXPECT_TRUE(wait_until(
      [&] { return ask(port(), "POST", "/echo", std::string(900, 'y')).status == 200; }));
}

TEST_F(HttpServerTest, SlowRequestsTimeOut) {
  serve({.idle_ms = 200, .header_ms = 50, .body_ms = 50});
  LoopbackClient header(port());
  header.send("GET / HTT");
  EXPECT_EQ(header.receive().status, 408u);
  LoopbackClient body(port());
  body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx");
  EXPECT_EQ(body.receive().status, 408u);
  LoopbackClient idle(port());
  EXPECT_TRUE(idle.closed_by_server());
}

TEST_F(HttpServerTest, AnExchangeWithoutAnAnswerIsA500) {
  serve();
  LoopbackClient client(port());
  client.send(request_text("GET", "/x"));
  ASSERT_TRUE(next());
  EXPECT_EQ(client.receive().status, 500u);
}

TEST_F(HttpServerTest, StopLetsAnswersFinish) {
  serve();
  LoopbackClient idle(port());
  LoopbackClient busy(port());
  busy.send(request_text("GET", "/x"));
  const Held exchange = next();
  std::thread answerer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    exchange->respond({200, {}, "done"});
  });
  server_->stop(5000);
  answerer.join();
  EXPECT_EQ(busy.receive().body, "done");
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_FALSE(LoopbackClient(port()).connected());
}

TEST_F(HttpServerTest, StopEndsWhatDoesNotFinish) {
  serve();
  LoopbackClient client(port());
  client.send(request_text("GET", "/x"));
  const Held exchange = next();
  const int64_t start = base::monotonic_us();
  server_->stop(50);
  EXPECT_LT(base::monotonic_us() - start, 2'000'000);
  server_.reset();
  exchange->respond({200, {}, "too late"});  // outlives the server; nothing happens
  EXPECT_EQ(client.receive().status, 0u);
}

TEST_F(HttpServerTest, ABusyPortIsNamed) {
  serve();
  HttpServerOptions options;
  options.port = port();
  const auto second = HttpServer::listen(options);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, testing::HasSubstr(std::to_string(port())));
  EXPECT_THAT(second.error().message, testing::HasSubstr("in use"));
  options.host = "no such host";
  EXPECT_EQ(HttpServer::listen(options).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(HttpServerTest, ManyAtOnce) {
  serve();
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back([&, i] {
      LoopbackClient client(port());
      for (int k = 0; k < 20; ++k) {
        const std::string body = std::to_string(i * 100 + k);
        client.send(request_text("POST", "/echo", body));
        if (client.receive().body == body) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 1000);
}

TEST(HttpServer, KnowsWhetherOthersReachIt) {
  const auto only_this_machine = [](const char* host) {
    HttpServerOptions options;
    options.host = host;
    const auto server = HttpServer::listen(options);
    EXPECT_TRUE(server.has_value()) << host;
    return server && (*server)->only_this_machine();
  };
  EXPECT_TRUE(only_this_machine("127.0.0.1"));
  EXPECT_TRUE(only_this_machine("127.0.0.3"));
  EXPECT_TRUE(only_this_machine("localhost"));
  EXPECT_FALSE(only_this_machine("0.0.0.0"));
}

}  // namespace
}  // namespace thimble::net
