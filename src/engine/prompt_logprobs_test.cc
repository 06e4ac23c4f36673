// Aim: log-probabilities of a prompt are those of a cold run of it, whatever the cache holds and
// however it is cut; the request adopts nothing, and what it leaves is exact and serves the next.
// Method: a nano model; every row's logits from teacher forcing; blocks (128) and windows (64) on
// the prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/checkpoint.h"
#include "engine/engine.h"
#include "engine/forced_run.h"
#include "engine/model_files.h"
#include "engine/sampler.h"
#include "engine/testing.h"

namespace thimble::engine {
namespace {

constexpr uint32_t kTop = 3;

// The definition, of all tokens but the first.
std::vector<PromptToken> cold_logprobs(const std::vector<int32_t>& prompt) {
  const auto checkpoint = arch::Checkpoint::open(nano_model());
  const auto tokenizer = open_tokenizer(*checkpoint);
  const auto map = engram_map(*checkpoint, *tokenizer);
  model::ModelOptions options;
  options.token_map = *map;
  const auto model = model::Model::create(*checkpoint, options);
  base::ThreadPool pool(1);
  const auto logits = run_forced(**model, prompt, {}, pool);
  EXPECT_TRUE(logits.has_value());
  const uint64_t vocab = checkpoint->config().vocab_size;
  std::vector<PromptToken> out;
  for (size_t i = 1; i < prompt.size(); ++i) {
    const auto row = std::span(*logits).subspan((i - 1) * vocab, vocab);
    auto of = *log_probabilities(row, prompt[i], kTop);
    out.push_back({prompt[i], of.token, of.rank, of.top});
  }
  return out;
}

bool same(const PromptToken& a, const PromptToken& b) {
  return a.token == b.token && a.logprob == b.logprob && a.rank == b.rank &&
         std::ranges::equal(a.top, b.top, [](const TokenLogprob& x, const TokenLogprob& y) {
           return x.token == y.token && x.logprob == y.logprob;
         });
}

struct Outcome {
  std::vector<PromptToken> prompt;
  std::vector<int32_t> ids;
  GenerationEnd end;
};

Outcome run(Engine& engine, const GenerationRequest& request) {
  const auto sink = std::make_shared<Collector>();
  EXPECT_TRUE(engine.submit(request, sink).has_value());
  Outcome out;
  out.end = sink->wait();
  EXPECT_EQ(out.end.reason, FinishReason::kLength);
  out.prompt = sink->prompt();
  out.ids = sink->ids();
  return out;
}

GenerationRequest asking(uint64_t tokens) {
  GenerationRequest request = request_of(tokens, 4);
  request.prompt_logprobs = kTop;
  return request;
}

void expect_cold(const Outcome& out, const GenerationRequest& request,
                 const std::vector<PromptToken>& expected) {
  ASSERT_EQ(out.prompt.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same(out.prompt[i], expected[i])) << "token " << i + 1;
  }
  EXPECT_EQ(out.end.cached_tokens, 0u);
  EXPECT_EQ(out.end.replayed_tokens, 0u);
  EXPECT_EQ(out.end.computed_tokens, request.prompt.size());
  EXPECT_TRUE(out.end.exact);
}

TEST(PromptLogprobs, AreTheColdRunsWhateverIsCached) {
  const GenerationRequest request = asking(301);
  const auto expected = cold_logprobs(request.prompt);
  GenerationRequest plain = request;
  plain.prompt_logprobs.reset();
  std::vector<int32_t> answer;
  for (const uint32_t chunk : {256, 7}) {
    for (const Replay replay : {Replay::kAuto, Replay::kBounded}) {
      const auto engine = open_engine(options_for(nano_model(), chunk));
      plain.replay = replay;
      const auto first = run(*engine, plain).ids;
      if (answer.empty()) answer = first;
      EXPECT_EQ(first, answer) << "cold, under either policy";
      GenerationRequest asked = request;
      asked.replay = replay;
      for (int time = 0; time < 2; ++time) {
        const Outcome out = run(*engine, asked);
        expect_cold(out, request, expected);
        EXPECT_EQ(out.ids, answer);
      }
    }
  }
}

// Snapshots cut a prompt into segments; each goes on in all layers where the last one ended.
TEST(PromptLogprobs, SegmentsChangeNothing) {
  GenerationRequest request = asking(301);
  request.snapshot_points = {1, 63, 64, 65, 128, 200, 299};
  expect_cold(run(*open_engine(options_for(nano_model(), 50)), request), request,
              cold_logprobs(request.prompt));
}

TEST(PromptLogprobs, WhatTheyComputeServesTheNext) {
  const auto engine = open_engine(options_for(nano_model()));
  const GenerationRequest request = asking(301);
  expect_cold(run(*engine, request), request, cold_logprobs(request.prompt));
  GenerationRequest longer = request;
  longer.prompt_logprobs.reset();
  const auto more = random_ids(50, 9);
  longer.prompt.insert(longer.prompt.end(), more.begin(), more.end());
  longer.replay = Replay::kExact;
  const Outcome after = run(*engine, longer);
  EXPECT_GE(after.end.cached_tokens, 301u);
  EXPECT_TRUE(after.prompt.empty());
  longer.reuse = false;
  EXPECT_EQ(after.ids, run(*open_engine(options_for(nano_model())), longer).ids);
}

TEST(PromptLogprobs, OneTokenHasNone) {
  const auto engine = open_engine(options_for(nano_model()));
  for (const uint64_t tokens : {1, 2}) {
    const GenerationRequest request = asking(tokens);
    expect_cold(run(*engine, request), request, cold_logprobs(request.prompt));
  }
}

TEST(PromptLogprobs, TooManyAlternativesAreRefused) {
  const auto engine = open_engine(options_for(nano_model()));
  GenerationRequest request = asking(5);
  request.prompt_logprobs = 21;
  const auto refused = engine->submit(request, std::make_shared<Collector>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("prompt_logprobs is 21"));
}

}  // namespace
}  // namespace thimble::engine
