// For tests of the scheduler on the fake model: a sink that waits, requests, and the answers that
// the definition gives them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/internal/collector.h"
#include "engine/internal/fake_runner.h"
#include "engine/internal/scheduler.h"

namespace thimble::engine {

inline constexpr uint32_t kVocab = 50;

// The fake model is quick.
struct TokenSink : Collector {
  TokenSink() : Collector(std::chrono::seconds(30)) {}
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
