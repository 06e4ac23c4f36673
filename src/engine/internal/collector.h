// For tests: a sink that keeps what it is told and can be waited for.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace thimble::engine {

// Any thread may ask; the engine thread tells.
class Collector : public GenerationSink {
 public:
  // Waits that long for an end: then the test fails rather than hang.
  explicit Collector(std::chrono::seconds patience = std::chrono::minutes(5))
      : patience_(patience) {}

  void on_prompt(std::vector<PromptToken> tokens) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(tokens_.empty() && prompt_.empty()) << "once, before the first token";
    prompt_ = std::move(tokens);
  }
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

  GenerationEnd wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, patience_, [&] { return end_.has_value(); }))
        << "no end after " << patience_.count() << " s";
    return end_.value_or(GenerationEnd{});
  }
  // Until so many tokens came, or the end.
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tokens_.size() >= count || end_.has_value(); });
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
  std::vector<PromptToken> prompt() {
    const std::lock_guard lock(mutex_);
    return prompt_;
  }

  size_t stop_after = SIZE_MAX;

 private:
  const std::chrono::seconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PromptToken> prompt_;
  std::vector<GeneratedToken> tokens_;
  std::optional<GenerationEnd> end_;
};

}  // namespace thimble::engine
