// Aim: many requests at once get the answers they would get alone, whatever is short, fails or is
// dropped among them; who waits for a token is not held up by prompts, shares follow priorities,
// and a pool that is too small for all delays some but stops nobody.
// Method: the fake model, whose answers are computed a second time; its gate shows what each step
// held; a pool of few blocks, and one that refuses at will.
#include "engine/internal/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "engine/internal/scheduler_testing.h"

namespace thimble::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class BatchTest : public SchedulerTest {
 protected:
  // One request whose single step is held, so that what comes after it starts together.
  std::shared_ptr<TokenSink> hold_first() {
    runner.hold();
    const auto first = submit(request_of(prompt_of(1), 1));
    runner.wait_for_steps(1);
    return first;
  }
  // All answers are the defined ones. The first is held until all have come: however slow this
  // thread is, they run together.
  void expect_answers(const std::vector<GenerationRequest>& requests) {
    std::vector<std::shared_ptr<TokenSink>> sinks;
    runner.hold();
    for (const GenerationRequest& request : requests) sinks.push_back(submit(request));
    runner.allow(1 << 20);
    for (size_t i = 0; i < requests.size(); ++i) {
      const GenerationEnd end = sinks[i]->wait();
      EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.value_or(Error{}).message;
      EXPECT_EQ(sinks[i]->ids(), expected_ids(requests[i])) << "request " << i;
    }
  }
  static std::vector<GenerationRequest> random_requests(size_t count, uint64_t seed,
                                                        uint64_t prompt_max, uint64_t answer_max) {
    base::SplitMix64 random(seed);
    std::vector<GenerationRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      requests.push_back(
          request_of(prompt_of(1 + random.below(prompt_max), random.next()),
                     static_cast<uint32_t>(1 + random.below(answer_max)),
                     {.temperature = random.below(2) == 0 ? 0.0F : 1.0F, .seed = random.next()}));
      requests.back().priority = static_cast<int32_t>(random.below(3)) - 1;
      if (i % 3 == 0) requests.back().sampling.repetition_penalty = 1.3F;
    }
    return requests;
  }
};

TEST_F(BatchTest, ManyRunAtOnceAndEachAsIfAlone) {
  start({.sequences_max = 4});
  const auto first = hold_first();
  std::vector<std::shared_ptr<TokenSink>> sinks;
  for (size_t i = 0; i < 6; ++i) sinks.push_back(submit(request_of(prompt_of(3, i), 5)));
  runner.allow(1 << 20);
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->ids(), expected_ids(request_of(prompt_of(3, i), 5)));
  }
  EXPECT_EQ(std::ranges::max(runner.batches()), 4u);
  const EngineCounters counters = scheduler->counters();
  EXPECT_EQ(counters.steps, 1u + 5 + 5);  // the first alone, then four at once, then two
  EXPECT_EQ(counters.generated_tokens, 31u);
  EXPECT_EQ(counters.step_rows_decode, 6u * 4);
  EXPECT_EQ(counters.finished, 7u);
}

TEST_F(BatchTest, RandomRequestsGetTheirAnswers) {
  start({.prefill_chunk = 16, .queue_requests_max = 200, .sequences_max = 7});
  expect_answers(random_requests(200, 1, 90, 30));
}

// While a long prompt is read, whoever decodes has a row in every step.
TEST_F(BatchTest, DecodingGoesOnWhileALongPromptIsRead) {
  start({.prefill_chunk = 10, .sequences_max = 2});
  runner.hold();
  const auto talker = submit(request_of(prompt_of(1), 300));
  runner.wait_for_steps(1);
  const auto reader = submit(request_of(prompt_of(200), 1));
  runner.allow(1 << 20);
  reader->wait();
  talker->wait();
  const auto batches = runner.batches();
  const auto both = std::ranges::count(batches, 2u);
  EXPECT_GE(both, 20);  // at most 10 tokens of the prompt in a step
  EXPECT_EQ(batches.size(), 300u) << "each step held a token of the talker";
}

// A short prompt does not wait for the end of a long one before it.
TEST_F(BatchTest, AShortPromptOvertakesALongOne) {
  start({.prefill_chunk = 10, .sequences_max = 2});
  const auto first = hold_first();
  const auto lengthy = submit(request_of(prompt_of(900), 1));
  const auto brief = submit(request_of(prompt_of(20), 1));
  runner.allow(6);  // the first, and five steps: four of them hold 5 tokens of either
  EXPECT_EQ(brief->wait().reason, FinishReason::kLength);
  EXPECT_FALSE(lengthy->ended());
  runner.allow(1 << 20);
  EXPECT_EQ(lengthy->wait().reason, FinishReason::kLength);
}

TEST_F(BatchTest, PromptsShareAStepByPriority) {
  start({.prefill_chunk = 30, .sequences_max = 3});
  const auto first = hold_first();
  std::vector<std::shared_ptr<TokenSink>> sinks;
  for (const int32_t priority : {0, 0, 1}) {
    auto request = request_of(prompt_of(60), 1);
    request.priority = priority;
    sinks.push_back(submit(request));
  }
  runner.allow(2);
  runner.wait_for_steps(3);
  runner.allow(1 << 20);
  for (const auto& sink : sinks) sink->wait();
  // Best ranked first: a half, and a quarter for each of the others.
  std::vector<size_t> chunks = runner.chunks();
  chunks.resize(4);
  EXPECT_EQ(chunks[0], 1u);
  EXPECT_EQ(chunks[1], 15u + 1) << "and what the others could not use";
  EXPECT_EQ(chunks[1] + chunks[2] + chunks[3], 30u);
}

TEST_F(BatchTest, HigherPrioritiesLeaveTheQueueFirst) {
  start();
  const auto first = hold_first();
  struct Ordered : TokenSink {
    explicit Ordered(std::vector<int>& order, int name) : order_(order), name_(name) {}
    void on_end(const GenerationEnd& end) override {
      order_.push_back(name_);
      TokenSink::on_end(end);
    }
    std::vector<int>& order_;
    int name_;
  };
  std::vector<int> order;
  std::vector<std::shared_ptr<Ordered>> sinks;
  for (const int priority : {0, -1, 2, 0, 1}) {
    auto request = request_of(prompt_of(3), 1);
    request.priority = priority;
    sinks.push_back(
        std::make_shared<Ordered>(order, 10 * priority + static_cast<int>(sinks.size())));
    ASSERT_TRUE(scheduler->submit(request, sinks.back()).has_value());
  }
  runner.allow(1 << 20);
  for (const auto& sink : sinks) sink->wait();
  EXPECT_THAT(order, ElementsAre(22, 14, 0, 3, -9));
}

TEST_F(BatchTest, DeadlinesEndWhoWaitsAndWhoRuns) {
  start();
  runner.hold();
  auto request = request_of(prompt_of(3), 900);
  request.deadline_us = base::monotonic_us() + 20'000;
  const auto running = submit(request);
  runner.wait_for_steps(1);
  const auto waiting = submit(request);
  const auto patient = submit(request_of(prompt_of(3), 2));
  while (base::monotonic_us() <= *request.deadline_us) std::this_thread::yield();
  runner.allow(1 << 20);
  for (const auto& sink : {running, waiting}) {
    const GenerationEnd end = sink->wait();
    EXPECT_EQ(end.reason, FinishReason::kError);
    EXPECT_THAT(end.error->message, HasSubstr("deadline passed"));
  }
  EXPECT_LE(running->ids().size(), 1u);
  EXPECT_EQ(patient->wait().reason, FinishReason::kLength);
}

// A step stops once the last of its requests was cancelled or is late; each ends for its reason.
TEST_F(BatchTest, AStepThatNobodyWaitsForIsGivenUp) {
  std::atomic<size_t> given_up{0};
  runner.on_step = [&](const Step& step) -> Result<void> {
    if (step.ids.size() == 1) return {};  // the one before
    while (!step.stop->due()) std::this_thread::yield();
    if (++given_up < 2) return {};
    return base::fail(ErrorCode::kCancelled, "nobody waits");
  };
  start({.sequences_max = 3});
  const auto first = hold_first();
  auto late = request_of(prompt_of(3), 9);
  late.deadline_us = base::monotonic_us() + 50'000;
  const auto overdue = submit(late);
  const auto cancelled = submit(request_of(prompt_of(4), 9));
  runner.allow(1 << 20);
  runner.wait_for_steps(2);
  scheduler->cancel(last_id);
  EXPECT_EQ(cancelled->wait().reason, FinishReason::kCancelled);
  const GenerationEnd end = overdue->wait();
  EXPECT_EQ(end.reason, FinishReason::kError);
  EXPECT_THAT(end.error.value_or(Error{}).message, HasSubstr("deadline passed"));
  EXPECT_EQ(runner.batches(), (std::vector<size_t>{1, 2}));
  EXPECT_TRUE(overdue->ids().empty() && cancelled->ids().empty());
}

// One of several makes the step fail: it alone ends, and the others lose nothing.
TEST_F(BatchTest, AStepThatFailsEndsWhoMadeItFail) {
  runner.on_step = [](const Step& step) -> Result<void> {
    if (step.ids.front() == 49) return base::fail(ErrorCode::kCorrupt, "row 49 is corrupt");
    return {};
  };
  start({.sequences_max = 3});
  const auto first = hold_first();
  std::vector<GenerationRequest> requests;
  for (const int32_t id : {7, 49, 8}) requests.push_back(request_of({id, 1, 2}, 4));
  for (GenerationRequest& request : requests) request.masked_tokens = {49};
  std::vector<std::shared_ptr<TokenSink>> sinks;
  for (const GenerationRequest& request : requests) sinks.push_back(submit(request));
  runner.allow(1 << 20);
  EXPECT_THAT(sinks[1]->wait().error->message, HasSubstr("row 49"));
  for (const size_t i : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->ids(), expected_ids(requests[i]));
  }
}

// Each prompt fits, all the answers together do not: some are paused, all are finished.
TEST_F(BatchTest, APoolTooSmallForAllDelaysSome) {
  for (const uint64_t blocks : {6, 8, 12}) {
    FakeRunner tight{kVocab};
    tight.blocks_free = blocks;
    scheduler.emplace(tight, SchedulerOptions{.prefill_chunk = 64,
                                              .queue_requests_max = 100,
                                              .context_tokens = blocks * arch::kBlockTokens,
                                              .sequences_max = 6});
    expect_answers(random_requests(40, blocks, 60, 600));
    EXPECT_GT(scheduler->counters().pauses, 0u) << blocks << " blocks";
    scheduler.reset();
    EXPECT_EQ(tight.blocks_free, blocks) << "every block came back";
  }
}

// Every other reservation finds no room: members are paused and begun anew all the time.
TEST_F(BatchTest, PausesAtAnyStepChangeNoToken) {
  uint64_t calls = 0;
  runner.on_reserve = [&](const Step&) -> Result<void> {
    if (++calls % 2 == 1 && scheduler->counters().running > 1) {
      return base::fail(ErrorCode::kUnavailable, "no room this time");
    }
    return {};
  };
  start({.prefill_chunk = 8, .queue_requests_max = 100, .sequences_max = 5});
  expect_answers(random_requests(40, 3, 40, 25));
  EXPECT_GT(scheduler->counters().pauses, 40u);
}

// Two begin alike: the second begins once the first has computed what they share.
TEST_F(BatchTest, OneWaitsForWhatAnotherComputes) {
  runner.waiting_pays = true;
  start({.prefill_chunk = 10, .sequences_max = 3});
  const auto first = hold_first();
  auto shared = prompt_of(300);
  const auto producer = submit(request_of(shared, 1));
  shared[200] = (shared[200] + 1) % static_cast<int32_t>(kVocab);
  const auto follower = submit(request_of(shared, 1));
  runner.allow(1 << 20);
  EXPECT_EQ(producer->wait().reason, FinishReason::kLength);
  EXPECT_EQ(follower->wait().reason, FinishReason::kLength);
  EXPECT_EQ(follower->ids(), expected_ids(request_of(shared, 1)));
  // Up to the end of the one block that they share the producer has whole steps to itself.
  const auto batches = runner.batches();
  EXPECT_EQ(std::ranges::find(batches, 2u) - batches.begin(), 1 + 13);
}

TEST_F(BatchTest, WhoWaitsIsLetGoWhenTheProducerEnds) {
  runner.waiting_pays = true;
  start({.prefill_chunk = 10, .sequences_max = 3});
  runner.hold();
  const auto producer = submit(request_of(prompt_of(300), 1));
  const RequestId id = last_id;
  runner.wait_for_steps(1);
  const auto follower = submit(request_of(prompt_of(300), 1));
  runner.allow(3);
  runner.wait_for_steps(4);
  EXPECT_EQ(scheduler->counters().waiting, 1u);
  scheduler->cancel(id);
  runner.allow(1 << 20);
  EXPECT_EQ(producer->wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(follower->wait().reason, FinishReason::kLength);
  EXPECT_EQ(follower->ids(), expected_ids(request_of(prompt_of(300), 1)));
}

// Nobody waits for one of a lower priority, of another tenant, or past a deadline.
TEST_F(BatchTest, SomeDoNotWaitForTheProducer) {
  runner.waiting_pays = true;
  start({.prefill_chunk = 10, .sequences_max = 4});
  runner.hold();
  const auto producer = submit(request_of(prompt_of(300), 1));
  runner.wait_for_steps(1);
  auto urgent = request_of(prompt_of(300), 1);
  urgent.priority = 1;
  auto stranger = request_of(prompt_of(300), 1);
  stranger.cache_salt = "another";
  auto late = request_of(prompt_of(300), 1);
  late.deadline_us = base::monotonic_us();
  const std::vector<std::shared_ptr<TokenSink>> sinks = {submit(urgent), submit(stranger)};
  const auto expired = submit(late);
  runner.allow(1);
  runner.wait_for_steps(2);
  EXPECT_EQ(runner.batches().back(), 3u);
  EXPECT_EQ(expired->wait().reason, FinishReason::kError);
  runner.allow(1 << 20);
  for (const auto& sink : sinks) EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
}

TEST_F(BatchTest, CancelledMembersLeaveAtTheNextStep) {
  start({.sequences_max = 3});
  runner.hold();
  const auto kept = submit(request_of(prompt_of(3), 40));
  runner.wait_for_steps(1);
  const auto dropped = submit(request_of(prompt_of(4), 900));
  const RequestId id = last_id;
  runner.allow(5);
  runner.wait_for_steps(6);
  scheduler->cancel(id);
  runner.allow(1);
  EXPECT_EQ(dropped->wait().reason, FinishReason::kCancelled);
  EXPECT_LE(dropped->ids().size(), 6u);
  runner.allow(1 << 20);
  kept->wait();
  EXPECT_EQ(kept->ids(), expected_ids(request_of(prompt_of(3), 40)));
}

TEST(StepBudgetTest, StepsBesideDecodesTakeTheirShareOfTime) {
  StepBudget budget;
  EXPECT_EQ(budget.prompt_rows(0, 40), UINT64_MAX);
  EXPECT_EQ(budget.prompt_rows(8, 40), 0u) << "nothing is known: this step measures";
  budget.observe(8, 0, 10'000);
  uint64_t rows = budget.prompt_rows(8, 40);
  EXPECT_EQ(rows, StepBudget::kRowsMin * 40) << "a careful beginning";
  // A row costs 2 us: 5,000 rows fill the 10 ms that a step may take longer.
  for (int i = 0; i < 40; ++i) {
    budget.observe(8, rows, 10'000 + 2 * static_cast<int64_t>(rows));
    const uint64_t next = budget.prompt_rows(8, 40);
    EXPECT_LE(next, 2 * rows) << "no jumps";
    rows = next;
  }
  EXPECT_NEAR(static_cast<double>(rows), 5000, 50);
  // Rows that became dear: fewer, but never none.
  for (int i = 0; i < 20; ++i) budget.observe(8, rows, 10'000'000);
  EXPECT_EQ(budget.prompt_rows(8, 40), StepBudget::kRowsMin * 40);
}

TEST(StepBudgetTest, ItMeasuresAgainEverySoOften) {
  StepBudget budget;
  budget.observe(1, 0, 1000);
  for (uint64_t i = 0; i < StepBudget::kProbeSteps; ++i) {
    EXPECT_GT(budget.prompt_rows(1, 40), 0u) << i;
    budget.observe(1, 160, 1500);
  }
  EXPECT_EQ(budget.prompt_rows(1, 40), 0u);
  budget.observe(1, 0, 1000);
  EXPECT_GT(budget.prompt_rows(1, 40), 0u);
}

}  // namespace
}  // namespace thimble::engine
