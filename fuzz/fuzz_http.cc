// Bytes of a connection from strangers: HTTP, then a JSON body, then the whole API.
//
// The first byte cuts the rest into pieces of that size, as a network might. Each request that
// results goes through the real routes to a generator that repeats the prompt. Whatever comes in,
// each request gets exactly one answer, of a known status, as JSON in valid UTF-8 or as a stream
// of such JSON that ends with [DONE].
#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/log.h"
#include "net/internal/http_parser.h"
#include "server/routes.h"
#include "text/byte_tokenizer.h"
#include "text/utf8.h"

namespace thimble::server {
namespace {

constexpr uint64_t kAnswerTokensMax = 48;

// Says the prompt again, at once, on the caller's thread.
class Echo : public Generator {
 public:
  explicit Echo(const text::Tokenizer& tokenizer)
      : info_(make_model_info("echo", 2000, tokenizer)) {}
  const ModelInfo& info() const override { return info_; }
  void cancel(engine::RequestId) override {}
  Load load() const override { return {}; }

  Result<std::vector<engine::RequestId>> submit(
      std::vector<engine::Submission> submissions) override {
    for (const auto& [request, sink] : submissions) say(request, *sink);
    return std::vector<engine::RequestId>(submissions.size(), 1);
  }

  void say(const engine::GenerationRequest& request, engine::GenerationSink& sink) const {
    CHECK(!request.prompt.empty());
    CHECK_LE(request.prompt.size() + request.max_tokens, info_.context_tokens);
    engine::GenerationEnd end{engine::FinishReason::kLength, {}, request.prompt.size(), 0, 0, 0, 0};
    for (const int32_t id : request.prompt) {
      if (end.completion_tokens >= std::min<uint64_t>(request.max_tokens, kAnswerTokensMax)) break;
      ++end.completion_tokens;
      engine::GeneratedToken token{id, -1.0F, {}};
      if (request.top_logprobs) token.top.assign(*request.top_logprobs, {id, -1.0F});
      if (sink.on_token(token) == engine::GenerationSink::Next::kStop) {
        end.reason = engine::FinishReason::kStop;
        break;
      }
    }
    sink.on_end(end);
  }

 private:
  const ModelInfo info_;
};

// Keeps what was answered.
class Captured : public net::HttpExchange {
 public:
  explicit Captured(net::HttpRequest request) : request_(std::move(request)) {}
  const net::HttpRequest& request() const override { return request_; }
  void respond(net::HttpResponse response) override { finish(response.status, response.body); }
  void begin_stream(net::HttpResponse, net::StreamOptions) override { streaming_ = true; }
  bool write(std::string bytes) override {
    body_ += bytes;
    return true;
  }
  void end_stream() override { finish(200, ""); }
  void abort_stream(net::HttpResponse unsent, std::string tail) override {
    if (!body_.empty()) return finish(200, tail);
    streaming_ = false;
    finish(unsent.status, unsent.body);
  }
  void on_gone(std::function<void()>) override {}

  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return status_ != 0; });
  }
  bool streamed() const { return streaming_; }
  uint32_t status() const { return status_; }
  const std::string& body() const { return body_; }

 private:
  void finish(uint32_t status, const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    CHECK_EQ(status_, 0u);
    body_ += bytes;
    status_ = status;
    done_.notify_all();
  }

  const net::HttpRequest request_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool streaming_ = false;
  std::string body_;
  uint32_t status_ = 0;
};

struct World {
  text::Tokenizer tokenizer = *text::Tokenizer::parse(text::make_byte_tokenizer_json());
  Echo echo{tokenizer};
  AnswerThreads threads{std::make_shared<WorkerPool>(1), std::make_shared<StreamThread>()};
  Routes routes{{}, echo, threads};
  net::HttpLimits limits;
};

World& world() {
  static World* const instance = [] {
    ::setenv("THIMBLE_LOG", "off", 1);
    base::init_log();
    auto made = std::make_unique<World>();
    made->limits.header_bytes = 2048;
    made->limits.body_bytes = 64 << 10;
    return made.release();  // lives as long as the process
  }();
  return *instance;
}

void check_json(std::string_view text) {
  CHECK(text::is_valid_utf8(text));
  CHECK(nlohmann::json::accept(text));
}

void check_stream(std::string_view body) {
  constexpr std::string_view kData = "data: ";
  constexpr std::string_view kEnd = "\n\n";
  std::string_view last;
  while (!body.empty()) {
    CHECK(body.starts_with(kData));
    const size_t end = body.find(kEnd);
    CHECK(end != std::string_view::npos);
    last = body.substr(kData.size(), end - kData.size());
    body.remove_prefix(end + kEnd.size());
    if (!body.empty()) check_json(last);
  }
  CHECK(last == "[DONE]");
}

void answer(net::HttpRequest request) {
  constexpr std::array<uint32_t, 7> kStatuses = {200, 204, 400, 401, 403, 404, 405};
  const auto exchange = std::make_shared<Captured>(std::move(request));
  world().routes.handle(exchange);
  exchange->wait();
  CHECK(std::find(kStatuses.begin(), kStatuses.end(), exchange->status()) != kStatuses.end());
  if (exchange->streamed()) {
    check_stream(exchange->body());
  } else if (exchange->status() != 204) {
    check_json(exchange->body());
  }
}

void connection(std::string_view bytes, size_t piece) {
  std::string pending;
  net::HttpParser parser(world().limits);
  for (size_t at = 0; at < bytes.size(); at += piece) {
    pending += bytes.substr(at, piece);
    const auto used = parser.feed(pending);
    if (!used) {
      CHECK(used.error().status >= 400 && !used.error().message.empty());
      return;
    }
    pending.erase(0, *used);
    if (parser.done()) return answer(parser.take());
  }
}

}  // namespace
}  // namespace thimble::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  thimble::server::connection(bytes.substr(1), static_cast<size_t>(data[0]) * 8 + 1);
  return 0;
}
