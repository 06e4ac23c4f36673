// Aim: every request gets its tokens and exactly one end, in order, whatever is cancelled, fails or
// throws around it; limits are kept; the thread never stalls.
// Method: a deterministic model (internal/fake_runner.h) whose answers are computed a second time
// here; its gate holds steps so that each race is played on purpose.
#include "engine/internal/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/random.h"
#include "engine/internal/fake_runner.h"
#include "engine/internal/scheduler_testing.h"

namespace thimble::engine {
namespace {

struct ThrowingSink : TokenSink {
  Next on_token(const GeneratedToken&) override { throw std::runtime_error("sink broke"); }
};

TEST_F(SchedulerTest, AnswersEqualTheDefinition) {
  start();
  for (const float temperature : {0.0F, 0.8F}) {
    auto request =
        request_of(prompt_of(37), 20, {.temperature = temperature, .top_p = 0.9F, .seed = 99});
    request.masked_tokens = {1, 2, 3};
    const auto want = expected_ids(request);
    const auto sink = submit(request);
    const GenerationEnd end = sink->wait();
    EXPECT_EQ(end.reason, FinishReason::kLength);
    EXPECT_EQ(end.prompt_tokens, 37u);
    EXPECT_EQ(end.completion_tokens, 20u);
    EXPECT_FALSE(end.error.has_value());
    EXPECT_EQ(sink->ids(), want);
  }
}

// Prompts of every length near a chunk's edges, each twice: at least one token is computed and the
// second run equals the first (first-request cases of 1 and 13 tokens included).
TEST_F(SchedulerTest, EveryPromptLengthTwiceGivesTheSame) {
  start({.prefill_chunk = 16});
  for (size_t length = 1; length <= 300; ++length) {
    const auto request = request_of(prompt_of(length, length), 3, {.seed = length});
    const auto first = submit(request);
    const auto second = submit(request);
    ASSERT_EQ(first->wait().reason, FinishReason::kLength);
    ASSERT_EQ(second->wait().reason, FinishReason::kLength);
    ASSERT_EQ(first->ids(), expected_ids(request)) << length;
    ASSERT_EQ(second->ids(), first->ids()) << length;
  }
}

TEST_F(SchedulerTest, FirstRequestOfAFreshEngineEqualsTheSecond) {
  for (const size_t length : {1, 13}) {
    start();
    const auto request = request_of(prompt_of(length), 5);
    const auto first = submit(request);
    const auto second = submit(request);
    first->wait();
    second->wait();
    EXPECT_EQ(first->ids().size(), 5u);
    EXPECT_EQ(first->ids(), second->ids());
  }
}

TEST_F(SchedulerTest, PrefillGoesInChunksAndDecodeOneByOne) {
  start({.prefill_chunk = 100});
  submit(request_of(prompt_of(250), 4))->wait();
  EXPECT_THAT(runner.chunks(), testing::ElementsAre(100, 100, 50, 1, 1, 1));
  const EngineCounters counters = scheduler->counters();
  EXPECT_EQ(counters.steps, 6u);
  EXPECT_EQ(counters.prompt_tokens, 250u);
  EXPECT_EQ(counters.generated_tokens, 4u);
  EXPECT_EQ(counters.finished, 1u);
  EXPECT_EQ(counters.running + counters.waiting, 0u);
}

TEST_F(SchedulerTest, StopTokensEndTheAnswerUnseen) {
  start();
  auto request = request_of(prompt_of(5), 30);
  const auto all = expected_ids(request);
  request.stop_tokens = {all[7]};
  const auto sink = submit(request);
  const GenerationEnd end = sink->wait();
  const auto first = static_cast<size_t>(std::find(all.begin(), all.end(), all[7]) - all.begin());
  EXPECT_EQ(end.reason, FinishReason::kStop);
  EXPECT_EQ(sink->ids(), std::vector<int32_t>(all.begin(), all.begin() + first));
  EXPECT_EQ(end.completion_tokens, first + 1);
}

TEST_F(SchedulerTest, StopTokenAtTheLastAllowedPlaceCountsAsStop) {
  start();
  auto request = request_of(prompt_of(5), 1);
  request.stop_tokens = expected_ids(request);
  EXPECT_EQ(submit(request)->wait().reason, FinishReason::kStop);
}

TEST_F(SchedulerTest, SinkMayStop) {
  start();
  auto sink = std::make_shared<TokenSink>();
  sink->stop_after = 3;
  ASSERT_TRUE(scheduler->submit(request_of(prompt_of(5), 30), sink).has_value());
  EXPECT_EQ(sink->wait().reason, FinishReason::kStop);
  EXPECT_EQ(sink->ids().size(), 3u);
  EXPECT_EQ(runner.chunks().size(), 3u);  // nothing was computed after it
}

TEST_F(SchedulerTest, LogProbabilitiesComeWhenAskedFor) {
  start();
  auto request = request_of(prompt_of(9), 3);
  EXPECT_TRUE([&] {
    const auto sink = submit(request);
    sink->wait();
    return sink->tokens().at(0).top.empty() && sink->tokens().at(0).logprob == 0;
  }());
  request.top_logprobs = 2;
  const auto sink = submit(request);
  sink->wait();
  for (const GeneratedToken& token : sink->tokens()) {
    ASSERT_EQ(token.top.size(), 2u);
    EXPECT_EQ(token.top[0].token, token.token);  // greedy: the most likely one
    EXPECT_EQ(token.top[0].logprob, token.logprob);
    EXPECT_LT(token.logprob, 0);
  }
}

TEST_F(SchedulerTest, RefusesWhatCanNeverRun) {
  start({.context_tokens = 100});
  using testing::HasSubstr;
  EXPECT_THAT(refusal(request_of({}, 1)), HasSubstr("prompt is empty"));
  EXPECT_THAT(refusal(request_of({1}, 0)), HasSubstr("max_tokens is 0"));
  EXPECT_THAT(refusal(request_of({1, 50}, 1)),
              HasSubstr("prompt[1] is token 50, expected 0 to 49"));
  EXPECT_THAT(refusal(request_of({-1}, 1)), HasSubstr("prompt[0] is token -1"));
  EXPECT_THAT(refusal(request_of(prompt_of(90), 11)), HasSubstr("make 101, the context holds 100"));
  EXPECT_THAT(refusal(request_of({1}, UINT32_MAX)), HasSubstr("the context holds 100"));
  EXPECT_THAT(refusal(request_of({1}, 1, {.temperature = 9})), HasSubstr("temperature is 9"));
  auto request = request_of({1}, 1);
  request.stop_tokens = {3, 99};
  EXPECT_THAT(refusal(request), HasSubstr("stop_tokens[1] is token 99"));
  request.stop_tokens.clear();
  request.masked_tokens = {-5};
  EXPECT_THAT(refusal(request), HasSubstr("masked_tokens[0] is token -5"));
  request.masked_tokens.clear();
  request.top_logprobs = 21;
  EXPECT_THAT(refusal(request), HasSubstr("top_logprobs is 21"));
  EXPECT_EQ(submit(request_of(prompt_of(90), 10))->wait().reason, FinishReason::kLength);
}

TEST_F(SchedulerTest, QueueIsBoundedAndACancelledRequestFreesItsPlaceAtOnce) {
  start({.queue_requests_max = 2});
  runner.hold();
  const auto running = submit(request_of(prompt_of(4), 2));
  runner.wait_for_steps(1);
  const auto second = submit(request_of(prompt_of(4), 2));
  const RequestId second_id = last_id;
  const auto third = submit(request_of(prompt_of(4), 2));
  const auto full = scheduler->submit(request_of(prompt_of(4), 2), std::make_shared<TokenSink>());
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(scheduler->counters().waiting, 2u);
  EXPECT_EQ(scheduler->counters().running, 1u);

  scheduler->cancel(second_id);
  const auto fourth = submit(request_of(prompt_of(4), 2));
  runner.allow(1);  // the running request's step ends; before its next one the sink hears
  EXPECT_EQ(second->wait().reason, FinishReason::kCancelled);
  EXPECT_FALSE(running->ended());
  runner.allow(100);
  EXPECT_EQ(running->wait().reason, FinishReason::kLength);
  EXPECT_EQ(third->wait().reason, FinishReason::kLength);
  EXPECT_EQ(fourth->wait().reason, FinishReason::kLength);
  EXPECT_TRUE(second->ids().empty());
}

TEST_F(SchedulerTest, CancelStopsALongPrefillBetweenChunks) {
  start({.prefill_chunk = 10});
  runner.hold();
  const auto sink = submit(request_of(prompt_of(500), 5));
  const RequestId id = last_id;
  runner.wait_for_steps(1);
  runner.allow(2);
  runner.wait_for_steps(3);
  scheduler->cancel(id);
  runner.allow(1);
  EXPECT_EQ(sink->wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(runner.chunks().size(), 3u);
  runner.allow(1000);
  EXPECT_EQ(submit(request_of(prompt_of(5), 5))->wait().reason, FinishReason::kLength);
}

TEST_F(SchedulerTest, CancelOfUnknownOrFinishedIdsIsIgnored) {
  start();
  const auto sink = submit(request_of(prompt_of(5), 5));
  sink->wait();
  scheduler->cancel(last_id);
  scheduler->cancel(777);
  scheduler->cancel(0);
  EXPECT_EQ(submit(request_of(prompt_of(5), 5))->wait().reason, FinishReason::kLength);
}

TEST_F(SchedulerTest, DestructionEndsEveryRequest) {
  start();
  runner.hold();
  const auto running = submit(request_of(prompt_of(4), 900));
  runner.wait_for_steps(1);
  const auto waiting = submit(request_of(prompt_of(4), 2));
  std::thread release([&] {  // the step being run ends some time after the stop was asked for
    while (!running->ended()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      runner.allow(1);
    }
  });
  scheduler.reset();
  release.join();
  EXPECT_EQ(running->wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(waiting->wait().reason, FinishReason::kCancelled);
}

TEST_F(SchedulerTest, AThrowingSinkEndsItsRequestOnly) {
  start();
  auto broken = std::make_shared<ThrowingSink>();
  ASSERT_TRUE(scheduler->submit(request_of(prompt_of(4), 9), broken).has_value());
  const auto fine = submit(request_of(prompt_of(4), 9));
  const GenerationEnd end = broken->wait();
  EXPECT_EQ(end.reason, FinishReason::kError);
  EXPECT_THAT(end.error->message, testing::HasSubstr("sink broke"));
  EXPECT_EQ(fine->wait().reason, FinishReason::kLength);
}

TEST_F(SchedulerTest, AnEndThatThrowsHarmsNobody) {
  struct Sink : TokenSink {
    void on_end(const GenerationEnd& end) override {
      TokenSink::on_end(end);
      throw 42;
    }
  };
  start();
  auto broken = std::make_shared<Sink>();
  ASSERT_TRUE(scheduler->submit(request_of(prompt_of(4), 2), broken).has_value());
  const auto fine = submit(request_of(prompt_of(4), 2));
  broken->wait();
  EXPECT_EQ(fine->wait().reason, FinishReason::kLength);
}

TEST_F(SchedulerTest, AModelErrorEndsItsRequestOnly) {
  int step = 0;
  runner.on_step = [&](const Step& s) -> Result<void> {
    if (++step == 3) return base::fail(ErrorCode::kCorrupt, "table row 7 is corrupt");
    if (step == 4) throw std::bad_alloc();
    if (step == 5) s.logits[0] = 0;
    return {};
  };
  start();
  const auto first = submit(request_of(prompt_of(4), 9));
  const auto second = submit(request_of(prompt_of(4), 9));
  const auto third = submit(request_of(prompt_of(4), 9));
  EXPECT_THAT(first->wait().error->message, testing::HasSubstr("table row 7"));
  EXPECT_EQ(first->ids().size(), 2u);
  EXPECT_EQ(second->wait().error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(third->wait().reason, FinishReason::kLength);
  EXPECT_EQ(third->ids(), expected_ids(request_of(prompt_of(4), 9)));
}

TEST_F(SchedulerTest, NoMemoryToStartEndsThatRequestOnly) {
  int calls = 0;
  runner.on_start = [&](uint64_t tokens) -> Result<void> {
    EXPECT_EQ(tokens, 13u);
    if (++calls == 1) return base::fail(ErrorCode::kResourceExhausted, "no memory for the windows");
    if (calls == 2) throw std::bad_alloc();
    return {};
  };
  start();
  for (const auto reason : {FinishReason::kError, FinishReason::kError, FinishReason::kLength}) {
    const GenerationEnd end = submit(request_of(prompt_of(4), 9))->wait();
    EXPECT_EQ(end.reason, reason);
    if (end.error) {
      EXPECT_EQ(end.error->code, ErrorCode::kResourceExhausted);
    }
  }
}

TEST_F(SchedulerTest, BadLogitsEndTheRequestWithAnError) {
  auto request = request_of(prompt_of(4), 9);
  for (int32_t id = 0; id < static_cast<int32_t>(kVocab); ++id) request.masked_tokens.push_back(id);
  start();
  const GenerationEnd end = submit(request)->wait();
  EXPECT_EQ(end.reason, FinishReason::kError);
  EXPECT_THAT(end.error->message, testing::HasSubstr("masked"));
  EXPECT_EQ(end.error->code, ErrorCode::kInternal);
}

TEST_F(SchedulerTest, SinksMaySubmitAndCancel) {
  struct Chaining : TokenSink {
    Next on_token(const GeneratedToken& token) override {
      TokenSink::on_token(token);
      if (next != nullptr) {
        EXPECT_TRUE(scheduler->submit(request_of(prompt_of(3), 2), next).has_value());
        next = nullptr;
        scheduler->cancel(1);
      }
      return Next::kContinue;
    }
    Scheduler* scheduler = nullptr;
    std::shared_ptr<TokenSink> next;
  };
  start();
  auto follower = std::make_shared<TokenSink>();
  auto first = std::make_shared<Chaining>();
  first->scheduler = &*scheduler;
  first->next = follower;
  ASSERT_EQ(scheduler->submit(request_of(prompt_of(3), 50), first).value(), 1u);
  EXPECT_EQ(first->wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(first->ids().size(), 1u);
  EXPECT_EQ(follower->wait().reason, FinishReason::kLength);
}

// The choices of one request: all find a place or none does, in the queue or where they run.
TEST_F(SchedulerTest, AGroupIsAcceptedWholeOrNotAtAll) {
  start({.queue_requests_max = 2, .sequences_max = 2});
  const auto group = [&](size_t count, std::vector<std::shared_ptr<TokenSink>>& sinks) {
    std::vector<Submission> out;
    for (size_t i = 0; i < count; ++i) {
      sinks.push_back(std::make_shared<TokenSink>());
      out.push_back({request_of(prompt_of(4, i), 2), sinks.back()});
    }
    return scheduler->submit(std::move(out));
  };
  std::vector<std::shared_ptr<TokenSink>> none, first, second;
  const auto never = group(5, none);
  ASSERT_FALSE(never.has_value());
  EXPECT_EQ(never.error().code, ErrorCode::kInvalidArgument) << "waiting would not help";
  EXPECT_THAT(never.error().message, testing::HasSubstr("5 answers at once"));
  runner.hold();
  const auto ids = group(3, first);
  ASSERT_TRUE(ids.has_value()) << "two run and one waits";
  EXPECT_EQ(ids->size(), 3u);
  const auto full = group(2, none);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(group(1, second).has_value());
  runner.allow(100);
  for (const auto& sink : first) EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
  EXPECT_EQ(second[0]->wait().reason, FinishReason::kLength);
  EXPECT_EQ(scheduler->counters().finished, 4u) << "of the refused groups none ran";
}

// Liveness: many clients submit and cancel at random; every request ends and the counters add up.
TEST_F(SchedulerTest, ManyThreadsSubmitAndCancel) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 150;
  start({.prefill_chunk = 4, .queue_requests_max = 8});
  std::atomic<uint64_t> accepted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      base::SplitMix64 random(static_cast<uint64_t>(t));
      for (int i = 0; i < kRequests; ++i) {
        const auto request = request_of(prompt_of(1 + random.below(20), random.next()), 5);
        const auto sink = std::make_shared<TokenSink>();
        const auto id = scheduler->submit(request, sink);
        if (!id) {
          EXPECT_EQ(id.error().code, ErrorCode::kResourceExhausted);
          std::this_thread::yield();
          continue;
        }
        ++accepted;
        const bool cancel = random.below(3) == 0;
        if (cancel) scheduler->cancel(*id);
        const GenerationEnd end = sink->wait();
        EXPECT_TRUE(end.reason == FinishReason::kLength ||
                    (cancel && end.reason == FinishReason::kCancelled));
        if (end.reason == FinishReason::kLength) {
          EXPECT_EQ(sink->ids(), expected_ids(request));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const EngineCounters counters = scheduler->counters();
  EXPECT_EQ(counters.finished, accepted.load());
  EXPECT_EQ(counters.running + counters.waiting, 0u);
}

}  // namespace
}  // namespace thimble::engine
