// Aim: what text files cannot say: clients that leave, dawdle or come all at once, and stopping.
// Method: the real server over loopback with a fake generator that talks slowly or without end.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/clock.h"
#include "net/internal/loopback_client.h"
#include "tests/api/test_server.h"

namespace thimble::server {
namespace {

using net::LoopbackClient;
using testing::HasSubstr;

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "x"}]})";
constexpr const char* kChatStream =
    R"({"messages": [{"role": "user", "content": "x"}], "stream": true})";

std::string post(const char* body) {
  return net::request_text("POST", "/v1/chat/completions", body);
}

FakeScript endless(uint32_t delay_us) {
  FakeScript script;
  script.says = "words without end ";
  script.endless = true;
  script.token_delay_us = delay_us;
  return script;
}

// For a busy machine; still below the 30 s after which a stalled stream ends for another reason.
bool wait_until(const std::function<bool()>& done) {
  const int64_t deadline = base::monotonic_us() + 20'000'000;
  while (!done()) {
    if (base::monotonic_us() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

bool idle(TestServer& server) {
  const Generator::Load load = server.generator().load();
  return load.running == 0 && load.waiting == 0;
}

// A request that nobody waits for must not hold the one place there is.
TEST(ServerBehaviour, AClientThatLeavesFreesItsPlace) {
  TestServerOptions options;
  options.context_tokens = 1 << 20;  // minutes of words: nothing ends by itself
  for (const char* body : {kChat, kChatStream}) {
    TestServer server(options);
    server.generator().set_script(endless(1000));
    LoopbackClient running(server.port());
    running.send(post(body));
    ASSERT_TRUE(wait_until([&] { return server.generator().load().running == 1; }));
    LoopbackClient waiting(server.port());
    waiting.send(post(body));
    ASSERT_TRUE(wait_until([&] { return server.generator().load().waiting == 1; }));
    waiting.close();
    EXPECT_TRUE(wait_until([&] { return server.generator().load().waiting == 0; })) << body;
    running.close();
    EXPECT_TRUE(wait_until([&] { return idle(server); })) << body;
  }
}

// Tokens that come faster than anybody reads are not written one by one, yet each is an event.
TEST(ServerBehaviour, FastTokensLeaveTogether) {
  constexpr size_t kTokens = 300;
  TestServer server;
  FakeScript script;
  script.says = std::string(kTokens, 'w');
  script.token_delay_us = 1000;
  server.generator().set_script(script);
  LoopbackClient client(server.port());
  client.send(post(kChatStream));
  std::string seen;
  while (!seen.ends_with("0\r\n\r\n")) seen += client.receive_some();
  const auto count = [&](std::string_view what) {
    size_t times = 0;
    for (size_t at = 0; (at = seen.find(what, at)) != std::string::npos; ++at) ++times;
    return times;
  };
  EXPECT_EQ(count(R"(content":"w")"), kTokens);
  EXPECT_LT(count("\r\ndata: "), kTokens / 2) << "chunks of the body";
}

TEST(ServerBehaviour, AStreamThatIsNotReadIsDropped) {
  TestServerOptions options;
  options.limits.unsent_bytes = 64 << 10;
  options.context_tokens = 1 << 30;
  TestServer server(options);
  server.generator().set_script(endless(0));
  LoopbackClient client(server.port());
  client.send(post(R"({"messages": [{"role": "user", "content": "x"}],
                       "stream": true, "max_tokens": 100000000})"));
  EXPECT_TRUE(wait_until([&] { return !server.generator().requests().empty(); }));
  EXPECT_TRUE(wait_until([&] { return idle(server); }));
}

TEST(ServerBehaviour, AFullQueueIsA429WithAHint) {
  TestServerOptions options;
  options.queue_requests_max = 1;
  TestServer server(options);
  server.generator().set_script(endless(1000));
  LoopbackClient running(server.port());
  running.send(post(kChatStream));
  ASSERT_TRUE(wait_until([&] { return server.generator().load().running == 1; }));
  LoopbackClient waiting(server.port());
  waiting.send(post(kChat));
  ASSERT_TRUE(wait_until([&] { return server.generator().load().waiting == 1; }));
  for (const char* body : {kChat, kChatStream}) {
    const net::Answer answer = net::ask(server.port(), "POST", "/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 429u);
    EXPECT_EQ(answer.header("Retry-After"), "1");
    EXPECT_THAT(answer.body, HasSubstr("rate_limit_error"));
    EXPECT_THAT(answer.body, HasSubstr("queue_full"));
  }
}

TEST(ServerBehaviour, ChoicesThatFindNoPlaceAreRefusedTogether) {
  TestServerOptions options;
  options.queue_requests_max = 2;
  TestServer server(options);
  server.generator().set_script(endless(1000));
  for (const char* stream : {"false", "true"}) {
    const std::string body = fmt::format(
        R"({{"messages": [{{"role": "user", "content": "x"}}], "n": 9, "stream": {}}})", stream);
    const net::Answer answer = net::ask(server.port(), "POST", "/v1/chat/completions", body);
    EXPECT_THAT(answer.body, HasSubstr("queue_full"));
    EXPECT_TRUE(server.generator().requests().empty()) << "none of them ran";
  }
}

// The first of two choices fails: the other, which would never end, ends, and says nothing more.
TEST(ServerBehaviour, AChoiceThatFailsEndsTheOthers) {
  TestServerOptions options;
  options.context_tokens = 1 << 20;
  TestServer server(options);
  FakeScript script = endless(1000);
  script.first_fails_after = 3;
  server.generator().set_script(script);
  for (const char* stream : {"false", "true"}) {
    const std::string body = fmt::format(
        R"({{"messages": [{{"role": "user", "content": "x"}}], "n": 2, "stream": {}}})", stream);
    const net::Answer answer = net::ask(server.port(), "POST", "/v1/chat/completions", body);
    EXPECT_THAT(answer.body, HasSubstr("the fake was told to fail"));
    EXPECT_THAT(answer.body, testing::Not(HasSubstr(R"("index":1)")));
    EXPECT_THAT(answer.body, testing::Not(HasSubstr(R"("finish_reason":")")));
    EXPECT_TRUE(wait_until([&] { return idle(server); })) << "the other went on";
  }
}

// A client that leaves while its request is on its way into the queue: nobody waits for it there.
TEST(ServerBehaviour, AClientThatLeavesDuringSubmissionFreesItsPlace) {
  TestServerOptions options;
  options.context_tokens = 1 << 20;
  TestServer server(options);
  server.generator().set_script(endless(1000));
  LoopbackClient running(server.port());
  std::atomic<int> submissions{0};
  std::promise<void> left;
  const std::shared_future<void> gone = left.get_future().share();
  server.generator().before_submit = [&submissions, gone] {
    if (++submissions == 2) gone.wait();
  };
  running.send(post(kChatStream));
  ASSERT_TRUE(wait_until([&] { return server.generator().load().running == 1; }));
  LoopbackClient leaving(server.port());
  leaving.send(post(kChatStream));
  ASSERT_TRUE(wait_until([&] { return submissions == 2; }));
  leaving.close();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until the server has noticed
  left.set_value();
  EXPECT_TRUE(wait_until([&] { return server.generator().requests().size() == 2; }));
  EXPECT_TRUE(wait_until([&] { return server.generator().load().waiting == 0; }));
  EXPECT_EQ(server.generator().load().running, 1u);
}

// Of a request that was accepted: not the client's pace, so no 429.
TEST(ServerBehaviour, NoMemoryToBeginIsA503WithTheNumbers) {
  TestServer server;
  FakeScript script;
  script.fails_after = 0;
  script.failure = "2 cache blocks are needed; 0 of 5 are free";
  script.failure_code = ErrorCode::kResourceExhausted;
  server.generator().set_script(script);
  for (const char* body : {kChat, kChatStream}) {
    const net::Answer answer = net::ask(server.port(), "POST", "/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 503u);
    EXPECT_EQ(answer.header("Retry-After"), "1");
    EXPECT_THAT(answer.body, HasSubstr("0 of 5 are free"));
    EXPECT_THAT(answer.body, HasSubstr("unavailable_error"));
    EXPECT_THAT(answer.body, HasSubstr("out_of_memory"));
  }
}

TEST(ServerBehaviour, HealthAnswersWhileGenerating) {
  TestServer server;
  server.generator().set_script(endless(100));
  LoopbackClient running(server.port());
  running.send(post(kChatStream));
  ASSERT_TRUE(wait_until([&] { return server.generator().load().running == 1; }));
  std::atomic<int> healthy{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 100; ++i) {
    clients.emplace_back([&] {
      const net::Answer answer = net::ask(server.port(), "GET", "/health");
      if (answer.status == 200 && answer.body.find(R"("running":1)") != std::string::npos)
        ++healthy;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(healthy, 100);
}

TEST(ServerBehaviour, SilenceIsFilledWithComments) {
  TestServerOptions options;
  options.routes.heartbeat_ms = 20;
  TestServer server(options);
  FakeScript slow = endless(200'000);
  slow.endless = false;
  slow.says = "a";
  server.generator().set_script(slow);
  LoopbackClient client(server.port());
  client.send(post(kChatStream));
  const net::Answer answer = client.receive();
  EXPECT_THAT(answer.body, HasSubstr(": keep-alive\n\n"));
  EXPECT_THAT(answer.body, HasSubstr("data: [DONE]"));
}

TEST(ServerBehaviour, IdAndCreatedStayTheSame) {
  TestServer server;
  FakeScript script;
  script.says = "thought</think>answer";
  server.generator().set_script(script);
  const net::Answer answer = net::ask(server.port(), "POST", "/v1/chat/completions", kChatStream);
  const size_t begin = answer.body.find("\"id\"");
  const std::string common = answer.body.substr(begin, answer.body.find("\"model\"") - begin);
  size_t chunks = 0;
  for (size_t at = answer.body.find("\"id\""); at != std::string::npos;
       at = answer.body.find("\"id\"", at + 1)) {
    EXPECT_EQ(answer.body.substr(at, common.size()), common);
    ++chunks;
  }
  EXPECT_GE(chunks, 10u);
  EXPECT_FALSE(answer.header("X-Request-Id").empty());
}

TEST(ServerBehaviour, StoppingEndsStreamsWithAnError) {
  TestServer server;
  server.generator().set_script(endless(1000));
  LoopbackClient streaming(server.port());
  streaming.send(post(kChatStream));
  LoopbackClient whole(server.port());
  ASSERT_TRUE(wait_until([&] { return server.generator().load().running == 1; }));
  whole.send(post(kChat));
  ASSERT_TRUE(wait_until([&] { return server.generator().load().waiting == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const int64_t start = base::monotonic_us();
  server.server().stop(3000);
  EXPECT_LT(base::monotonic_us() - start, 2'000'000);
  const net::Answer stream = streaming.receive();
  EXPECT_EQ(stream.status, 200u);
  EXPECT_THAT(stream.body, HasSubstr("the server is shutting down"));
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(whole.receive().status, 503u);
}

// As long as an answer is on its way, others are told that the server stops: who balances load has
// to see it.
TEST(ServerBehaviour, WhoComesWhileItStopsIsTold) {
  TestServer server;
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> held{false};
  server.generator().before_submit = [&held, released] {
    held = true;
    released.wait();
  };
  LoopbackClient first(server.port());
  first.send(post(kChat));
  ASSERT_TRUE(wait_until([&] { return held.load(); }));
  std::thread stopping([&] { server.server().stop(20'000); });
  EXPECT_TRUE(wait_until([&] { return net::ask(server.port(), "GET", "/health").status == 503; }));
  const net::Answer refused = net::ask(server.port(), "POST", "/v1/chat/completions", kChat);
  EXPECT_EQ(refused.status, 503u);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_THAT(refused.body, HasSubstr("the server is shutting down"));
  release.set_value();
  EXPECT_EQ(first.receive().status, 503u);
  stopping.join();
  EXPECT_FALSE(LoopbackClient(server.port()).connected());
}

TEST(ServerBehaviour, ConnectionsOverTheLimitAreToldWhenToComeBack) {
  TestServerOptions options;
  options.limits.connections = 1;
  TestServer server(options);
  LoopbackClient only(server.port());
  only.send("GET /hea");
  LoopbackClient second(server.port());
  const net::Answer answer = second.receive();
  EXPECT_EQ(answer.status, 503u);
  EXPECT_EQ(answer.header("Retry-After"), "1");
}

TEST(ServerBehaviour, TheSocketsRefusalsHaveTheApisShape) {
  TestServerOptions options;
  options.limits.body_bytes = 100;
  TestServer server(options);
  const net::Answer answer =
      net::ask(server.port(), "POST", "/v1/completions", std::string(101, 'x'));
  EXPECT_EQ(answer.status, 413u);
  EXPECT_EQ(answer.header("Content-Type"), "application/json");
  EXPECT_THAT(answer.body, HasSubstr(R"({"error":{"message":)"));
}

TEST(ServerBehaviour, AWellFormedBodyOfMalformedUtf8IsA400) {
  TestServer server;
  const net::Answer answer =
      net::ask(server.port(), "POST", "/v1/completions", "{\"prompt\": \"\xff\xfe\"}");
  EXPECT_EQ(answer.status, 400u);
  EXPECT_THAT(answer.body, HasSubstr("UTF-8"));
}

TEST(ServerBehaviour, ManyRequestsTakeTurns) {
  TestServer server;
  FakeScript script;
  script.says = "ok";
  server.generator().set_script(script);
  std::atomic<int> right{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 32; ++i) {
    clients.emplace_back([&, i] {
      const net::Answer answer =
          net::ask(server.port(), "POST", "/v1/chat/completions", i % 2 == 0 ? kChat : kChatStream);
      const char* text = i % 2 == 0 ? R"("reasoning_content":"ok")" : R"("reasoning_content":"k")";
      if (answer.status == 200 && answer.body.find(text) != std::string::npos) ++right;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 32);
}

}  // namespace
}  // namespace thimble::server
