// Aim: what the cache knows never changes an answer, only how much is computed: a second identical
// request, an extended one, a branch, a cancelled one, other salts. Method: a nano model; each
// request is answered a second time by an engine that reuses nothing; every length around window
// (64), pair and block (128).
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "arch/cache_layout.h"
#include "arch/row_plan.h"
#include "engine/engine.h"
#include "engine/testing.h"

namespace thimble::engine {
namespace {

constexpr Replay kPolicies[] = {Replay::kAuto, Replay::kExact, Replay::kBounded};
constexpr uint32_t kAnswer = 6;

struct Outcome {
  std::vector<int32_t> ids;
  GenerationEnd end;
};

Outcome run(Engine& engine, const GenerationRequest& request) {
  const auto sink = std::make_shared<Collector>();
  const auto id = engine.submit(request, sink);
  EXPECT_TRUE(id.has_value()) << id.error().describe();
  if (!id) return {};
  Outcome out;
  out.end = sink->wait();
  out.ids = sink->ids();
  EXPECT_FALSE(out.end.error.has_value()) << out.end.error->describe();
  EXPECT_LT(out.end.cached_tokens, out.end.prompt_tokens) << "one token at least is computed";
  EXPECT_EQ(out.end.computed_tokens,
            out.end.prompt_tokens - out.end.cached_tokens + out.end.replayed_tokens);
  return out;
}

class Reuse : public testing::TestWithParam<Replay> {
 protected:
  Reuse() : text_(random_ids(2000, 5)) { start(); }

  void start() { engine_ = open_engine(options_for(nano_model(), 48)); }

  GenerationRequest request(std::vector<int32_t> prompt) const {
    GenerationRequest out;
    out.prompt = std::move(prompt);
    out.max_tokens = kAnswer;
    out.sampling.seed = 3;
    out.replay = GetParam();
    return out;
  }
  std::vector<int32_t> text(uint64_t tokens) const {
    return {text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(tokens)};
  }

  // The same request where nothing is reused; bounded, its decoder's depth is another question.
  std::vector<int32_t> cold(GenerationRequest request) {
    if (cold_engine_ == nullptr) cold_engine_ = open_engine(options_for(nano_model(), 256));
    request.reuse = false;
    request.replay = Replay::kExact;
    auto& known = cold_[request.prompt];
    if (known.empty()) {
      const Outcome out = run(*cold_engine_, request);
      EXPECT_EQ(out.end.cached_tokens, 0u);
      known = out.ids;
    }
    return known;
  }

  // Whoever is told that every bit is that of an uninterrupted run gets its tokens.
  Outcome expect_sound(const GenerationRequest& asked) {
    Outcome out = run(*engine_, asked);
    EXPECT_TRUE(out.end.exact || GetParam() != Replay::kExact);
    if (out.end.exact) {
      EXPECT_EQ(out.ids, cold(asked)) << asked.prompt.size() << " tokens";
    }
    return out;
  }

  const std::vector<int32_t> text_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine> cold_engine_;
  std::map<std::vector<int32_t>, std::vector<int32_t>> cold_;
};

// Each length twice; each begins with all of the ones before.
TEST_P(Reuse, LengthsAtTheEdgesTwice) {
  std::vector<std::vector<int32_t>> answers;
  const std::vector<uint64_t> lengths = {1,   2,   3,   63,  64,  65,  66,  127, 128,
                                         129, 130, 131, 255, 256, 257, 301, 700};
  for (int pass = 0; pass < 2; ++pass) {  // the second time by an engine of its own
    size_t next = 0;
    for (const uint64_t length : lengths) {
      for (int time = 0; time < 2; ++time) {
        const Outcome out = expect_sound(request(text(length)));
        if (time == 1) {
          EXPECT_EQ(out.end.cached_tokens, length - 1) << "a hit has any length";
        }
        if (pass == 0) answers.push_back(out.ids);
        EXPECT_EQ(out.ids, answers[next++]) << "the same history, the same answer";
      }
    }
    start();
  }
}

// All hits up to a window and a pair, on their own: one prefix, then its one continuation.
TEST_P(Reuse, ShortHits) {
  for (uint64_t hit = 1; hit <= 130; hit += hit < 20 || hit > 125 ? 1 : 13) {
    GenerationRequest first = request(text(hit));
    first.max_tokens = 1;
    first.cache_salt = std::to_string(hit);
    run(*engine_, first);
    GenerationRequest second = request(text(hit + 9));
    second.cache_salt = first.cache_salt;
    EXPECT_EQ(expect_sound(second).end.cached_tokens, hit);
  }
}

TEST_P(Reuse, AConversationGoesOn) {
  std::vector<int32_t> prompt = text(75);
  for (int turn = 0; turn < 4; ++turn) {
    const Outcome out = expect_sound(request(prompt));
    // All of the turn before; of its answer all but the token that was sampled last.
    if (turn > 0) {
      EXPECT_EQ(out.end.cached_tokens, prompt.size() - 11 - 1);
      if (GetParam() != Replay::kBounded) {
        EXPECT_EQ(out.end.replayed_tokens, 0u) << "there is a snapshot";
        EXPECT_TRUE(out.end.exact);
      }
    }
    prompt.insert(prompt.end(), out.ids.begin(), out.ids.end());
    const auto question = random_ids(11, static_cast<uint64_t>(turn));
    prompt.insert(prompt.end(), question.begin(), question.end());
  }
}

// Back from an odd length: one token less, two, three, a window.
TEST_P(Reuse, BranchesOffAnywhere) {
  run(*engine_, request(text(301)));
  for (const uint64_t back : {0, 1, 2, 3, 128, 129}) {
    std::vector<int32_t> prompt = text(301 - back);
    const auto other = random_ids(20, back);
    prompt.push_back(prompt.size() < 301 && text_[prompt.size()] == 3 ? 4 : 3);  // a new branch
    prompt.insert(prompt.end(), other.begin(), other.end());
    const uint64_t cached = expect_sound(request(prompt)).end.cached_tokens;
    EXPECT_GE(cached, 301 - back - (back == 0 ? 1 : 0));
    EXPECT_LE(cached, 302 - back);
  }
}

TEST_P(Reuse, WhatACancelledRequestComputedServes) {
  GenerationRequest endless = request(text(200));
  endless.max_tokens = 60'000;
  const auto sink = std::make_shared<Collector>();
  const auto id = engine_->submit(endless, sink);
  ASSERT_TRUE(id.has_value());
  while (sink->ids().size() < 4) std::this_thread::yield();
  engine_->cancel(*id);
  EXPECT_EQ(sink->wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(expect_sound(request(text(230))).end.cached_tokens, 200u);
  EXPECT_EQ(expect_sound(request(text(200))).end.cached_tokens, 199u);
}

TEST_P(Reuse, NothingIsSharedBetweenSalts) {
  GenerationRequest asked = request(text(150));
  const auto answer = expect_sound(asked).ids;
  for (const char* salt : {"a", "b", "ab"}) {
    asked.cache_salt = salt;
    const Outcome first = expect_sound(asked);
    EXPECT_EQ(first.end.cached_tokens, 0u) << salt;
    EXPECT_EQ(first.ids, answer) << salt;
    EXPECT_EQ(expect_sound(asked).end.cached_tokens, 149u) << salt;
  }
  asked.reuse = false;
  EXPECT_EQ(expect_sound(asked).end.cached_tokens, 0u);
}

// With room for no snapshot every hit is replayed.
TEST_P(Reuse, WithoutSnapshotsWindowsAreRebuilt) {
  EngineOptions options = options_for(nano_model());
  options.snapshot_bytes = 0;
  engine_ = open_engine(options);
  const uint64_t cone = arch::decoder_cone(engine_->layers());
  const arch::LayerPlan& plan = engine_->layers();
  // A hit so long that rebuilding its windows does not reach back to the prompt's beginning.
  const uint64_t near = uint64_t{plan.window - 1} * plan.decoder_begin + plan.window + 10;
  ASSERT_LT(near + cone, text_.size());
  expect_sound(request(text(near)));
  const Outcome again = expect_sound(request(text(near)));
  EXPECT_EQ(again.end.cached_tokens, near - 1);
  EXPECT_GT(again.end.replayed_tokens, 0u);
  EXPECT_EQ(again.end.exact, GetParam() == Replay::kExact);
  // Enough new text for the decoder's cone: only bounded stays approximate.
  EXPECT_EQ(expect_sound(request(text(near + cone))).end.exact, GetParam() != Replay::kBounded);
}

// A pool that hardly holds one sequence: a prompt that grows, asked for twice each time, finds all
// blocks taken by what it matches. It adopts less then, and never fails.
TEST_P(Reuse, ATightPoolCutsTheHitAndNeverFails) {
  const auto layout = arch::make_cache_layout(engine_->config(), arch::CacheFormat::kPacked);
  for (const uint64_t blocks : {2, 3, 5}) {
    EngineOptions options = options_for(nano_model());
    options.kv_bytes = blocks * layout.block_bytes;
    engine_ = open_engine(options);
    const uint64_t most = blocks * arch::kBlockTokens - kAnswer;
    for (uint64_t length = 40; length <= most; length += 61) {
      expect_sound(request(text(length)));
      expect_sound(request(text(length)));
    }
    EXPECT_GT(engine_->counters().cached_tokens, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, Reuse, testing::ValuesIn(kPolicies),
                         [](const auto& test) { return std::string(to_string(test.param)); });

// Order of what sinks hear.
struct Events {
  std::mutex mutex;
  std::vector<std::string> heard;
};

class Speaking : public Collector {
 public:
  Speaking(Events& events, std::string name) : events_(events), name_(std::move(name)) {}
  Next on_token(const GeneratedToken& token) override {
    if (ids().empty()) say(" begins");
    return Collector::on_token(token);
  }
  void on_end(const GenerationEnd& end) override {
    say(" ends");
    Collector::on_end(end);
  }

 private:
  void say(const char* what) {
    const std::lock_guard lock(events_.mutex);
    events_.heard.push_back(name_ + what);
  }
  Events& events_;
  const std::string name_;
};

// A pool that one request fills: the second waits for the blocks of the first, which are evicted
// for it, and its answer is that of a pool of its own.
TEST(TightPool, TheSecondRequestWaitsForTheBlocksOfTheFirst) {
  EngineOptions options = options_for(nano_model());
  const auto layout = arch::make_cache_layout(nano_config(), arch::CacheFormat::kPacked);
  options.kv_bytes = 3 * layout.block_bytes;
  options.snapshot_bytes = 0;
  const auto engine = open_engine(options);
  ASSERT_EQ(engine->context_tokens(), 3 * arch::kBlockTokens);
  Events events;
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<Speaking>> sinks;
  for (const char* name : {"first", "second", "third"}) {
    GenerationRequest request;
    request.prompt = random_ids(300, sinks.size() + 1);
    request.max_tokens = 84;  // to the last place of the pool
    request.sampling.temperature = 0;
    sinks.push_back(std::make_shared<Speaking>(events, name));
    ASSERT_TRUE(engine->submit(request, sinks.back()).has_value());
    requests.push_back(std::move(request));
  }
  const auto roomy = open_engine(options_for(nano_model()));
  for (size_t i = 0; i < requests.size(); ++i) {
    const GenerationEnd end = sinks[i]->wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.value_or(Error{}).message;
    EXPECT_EQ(sinks[i]->ids(), run(*roomy, requests[i]).ids) << i;
    EXPECT_GE(end.queue_us, i == 0 ? 0 : sinks[i - 1]->wait().decode_us);
  }
  EXPECT_EQ(events.heard, (std::vector<std::string>{"first begins", "first ends", "second begins",
                                                    "second ends", "third begins", "third ends"}));
  EXPECT_EQ(engine->counters().cache.blocks_total, 3u);
  // Of the first nothing is left: its blocks were evicted for the others.
  EXPECT_EQ(run(*engine, requests[0]).end.cached_tokens, 0u);
}

TEST(TightPool, WhatCanNeverFitIsRefusedWithTheNumbers) {
  EngineOptions options = options_for(nano_model());
  const auto layout = arch::make_cache_layout(nano_config(), arch::CacheFormat::kPacked);
  options.kv_bytes = 3 * layout.block_bytes;
  const auto engine = open_engine(options);
  GenerationRequest request = request_of(300, 85);
  const auto refused = engine->submit(request, std::make_shared<Collector>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "prompt (300 tokens) and max_tokens (85) make 385, the context holds 384");
  EXPECT_EQ(engine->counters().waiting, 0u);
}

TEST(ReuseCounters, CountHitsAndWhatTheCacheHolds) {
  const auto engine = open_engine(options_for(nano_model()));
  GenerationRequest asked = request_of(200, 2);
  run(*engine, asked);
  EXPECT_EQ(engine->counters().cache_hits, 0u);
  run(*engine, asked);
  const EngineCounters now = engine->counters();
  EXPECT_EQ(now.finished, 2u);
  EXPECT_EQ(now.cache_hits, 1u);
  EXPECT_EQ(now.cached_tokens, 199u);
  EXPECT_GT(now.cache.blocks_used, 0u);
  EXPECT_LT(now.cache.blocks_used, now.cache.blocks_total);
  EXPECT_GT(now.cache.snapshots, 0u);
}

// What the cache holds is told while requests run, not only at their ends.
TEST(ReuseCounters, AreOfTheLastStep) {
  class Watcher : public Collector {
   public:
    Next on_token(const GeneratedToken& token) override {
      seen.push_back(engine->counters().cache);
      return Collector::on_token(token);
    }
    Engine* engine = nullptr;
    std::vector<CacheUse> seen;
  };
  const auto engine = open_engine(options_for(nano_model()));
  const auto sink = std::make_shared<Watcher>();
  sink->engine = engine.get();
  ASSERT_TRUE(engine->submit(request_of(200, 3), sink).has_value());
  sink->wait();
  ASSERT_EQ(sink->seen.size(), 3u);
  EXPECT_EQ(sink->seen[2].blocks_live, 2u) << "200 tokens and three more";
  EXPECT_GE(sink->seen[2].blocks_used, 2u) << "a snapshot may hold some";
  const CacheUse after = engine->counters().cache;
  EXPECT_EQ(after.blocks_live, 0u);
  EXPECT_GT(after.blocks_indexed, 0u) << "kept for later requests";
  EXPECT_GE(after.blocks_used, after.blocks_indexed);
  EXPECT_GT(after.snapshot_bytes_max, after.snapshot_bytes);
}

TEST(ReplayCostsOfAnEngine, AreTimedWhenAskedFor) {
  EngineOptions options = options_for(nano_model());
  EXPECT_FALSE(open_engine(options)->plan().replay.layer_token_us.has_value());
  options.measures_replay = true;
  const planner::ReplayCosts costs = open_engine(options)->plan().replay;
  EXPECT_GT(costs.layer_token_us.value_or(0), 0);
  EXPECT_EQ(costs.hit, 8192u);
}

}  // namespace
}  // namespace thimble::engine
