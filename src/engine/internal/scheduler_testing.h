// For tests of the scheduler on the fake model: a sink that waits, requests, and the answers that
// the definition gives them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/internal/fake_runner.h"
#include "engine/internal/scheduler.h"

namespace thimble::engine {

inline constexpr uint32_t kVocab = 50;

class TokenSink : public GenerationSink {
 public:
  Next on_token(const GeneratedToken& token) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(end_.has_value()) << "a token after the end";
    tokens_.push_back(token);
    changed_.notify_all();
    return tokens_.size() >= stop_after ? Next::kStop : Next::kContinue;
  }
  void on_end(const GenerationEnd& end) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(end_.has_value()) << "a second end";
    end_ = end;
    changed_.notify_all();
  }

  // Fails the test rather than hang when the end does not come.
  GenerationEnd wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return end_.has_value(); }))
        << "no end after 30 s";
    return end_.value_or(GenerationEnd{});
  }
  bool ended() {
    const std::lock_guard lock(mutex_);
    return end_.has_value();
  }
  std::vector<int32_t> ids() {
    const std::lock_guard lock(mutex_);
    std::vector<int32_t> ids;
    for (const GeneratedToken& token : tokens_) ids.push_back(token.token);
    return ids;
  }
  std::vector<GeneratedToken> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

  size_t stop_after = SIZE_MAX;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<GeneratedToken> tokens_;
  std::optional<GenerationEnd> end_;
};

inline std::vector<int32_t> prompt_of(size_t length, uint64_t seed = 1) {
  base::SplitMix64 random(seed);
  std::vector<int32_t> ids(length);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.below(kVocab));
  return ids;
}

inline GenerationRequest request_of(std::vector<int32_t> prompt, uint32_t max_tokens,
                                    SamplingParams sampling = {.temperature = 0}) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling = sampling;
  return request;
}

// The answer, computed without the engine.
inline std::vector<int32_t> expected_ids(const GenerationRequest& request) {
  std::vector<int32_t> history = request.prompt;
  Sampler sampler(request.sampling, request.masked_tokens);
  sampler.see(request.prompt);
  for (uint32_t i = 0; i < request.max_tokens; ++i) {
    const auto token = sampler.sample(FakeRunner::logits_after(history, kVocab), history.size());
    history.push_back(*token);
  }
  return {history.begin() + static_cast<std::ptrdiff_t>(request.prompt.size()), history.end()};
}

class SchedulerTest : public testing::Test {
 protected:
  void TearDown() override { runner.allow(1 << 20); }  // a failed test must not hang
  void start(SchedulerOptions options = {}) {
    if (options.context_tokens == 0) options.context_tokens = 1000;
    scheduler.emplace(runner, options);
  }
  std::shared_ptr<TokenSink> submit(GenerationRequest request) {
    auto sink = std::make_shared<TokenSink>();
    const auto id = scheduler->submit(std::move(request), sink);
    EXPECT_TRUE(id.has_value()) << id.error().message;
    last_id = id.value_or(0);
    return sink;
  }
  std::string refusal(GenerationRequest request) {
    const auto id = scheduler->submit(std::move(request), std::make_shared<TokenSink>());
    if (id) return "accepted";
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
    return id.error().message;
  }

  FakeRunner runner{kVocab};
  std::optional<Scheduler> scheduler;
  RequestId last_id = 0;
};

}  // namespace thimble::engine
