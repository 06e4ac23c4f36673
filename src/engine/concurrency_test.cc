// Aim: whatever runs beside a request changes no bit of it: tokens and log-probabilities of many
// streams at once equal those of each alone, with others cancelled among them, in pools too small
// for all, and when every step pauses somebody.
// Method: a nano model; solo answers from an engine that runs one request at a time and reuses
// nothing; the cache counted anew after each step. Sizes are small here and those of the promise
// (64 streams, ten rounds) in the Soak tests, under label soak.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

#include "arch/cache_layout.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/internal/model_runner.h"
#include "engine/internal/scheduler.h"
#include "engine/model_files.h"
#include "engine/testing.h"
#include "model/forward.h"

namespace thimble::engine {
namespace {

// What a client sees of a token, to the bit.
struct Seen {
  int32_t token = 0;
  uint32_t logprob = 0;
  std::vector<std::pair<int32_t, uint32_t>> top;
  bool operator==(const Seen&) const = default;
};

class Stream : public Collector {
 public:
  std::vector<Seen> seen() {
    std::vector<Seen> out;
    for (const GeneratedToken& token : tokens()) {
      out.push_back({token.token, std::bit_cast<uint32_t>(token.logprob), {}});
      for (const TokenLogprob& of : token.top) {
        out.back().top.emplace_back(of.token, std::bit_cast<uint32_t>(of.logprob));
      }
    }
    return out;
  }
};

std::vector<GenerationRequest> distinct_requests(size_t count, uint64_t seed, uint64_t prompt_max,
                                                 uint64_t answer_max) {
  base::SplitMix64 random(seed);
  std::vector<GenerationRequest> requests(count);
  for (GenerationRequest& request : requests) {
    request.prompt = random_ids(1 + random.below(prompt_max), random.next());
    request.max_tokens = static_cast<uint32_t>(1 + random.below(answer_max));
    request.sampling.temperature = random.below(3) == 0 ? 0.0F : 1.0F;
    request.sampling.seed = random.next();
    request.replay = Replay::kExact;
    request.top_logprobs = 2;
  }
  return requests;
}

template <class Submits>
std::shared_ptr<Stream> submit(Submits& engine, const GenerationRequest& request,
                               RequestId* id = nullptr) {
  auto stream = std::make_shared<Stream>();
  const auto accepted = engine.submit(request, stream);
  EXPECT_TRUE(accepted.has_value()) << accepted.error().describe();
  if (id != nullptr) *id = accepted.value_or(0);
  return stream;
}

EngineOptions options_of(uint32_t sequences) {
  EngineOptions options = options_for(nano_model());
  options.sequences_max = sequences;
  options.queue_requests_max = 1000;
  return options;
}

// One after the other, nothing reused.
std::vector<std::vector<Seen>> solo_answers(std::vector<GenerationRequest> requests) {
  EngineOptions options = options_of(1);
  options.checks_cache = false;
  const auto engine = open_engine(options);
  std::vector<std::vector<Seen>> answers;
  for (GenerationRequest& request : requests) {
    request.reuse = false;
    const auto stream = submit(*engine, request);
    EXPECT_EQ(stream->wait().reason, FinishReason::kLength);
    answers.push_back(stream->seen());
  }
  return answers;
}

// Holds the engine at a token until open(): what is submitted meanwhile starts together, however
// slowly it comes.
class Gate : public GenerationSink {
 public:
  Next on_token(const GeneratedToken&) override {
    open_.wait(false);
    return Next::kContinue;
  }
  void on_end(const GenerationEnd&) override {}
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_ = false;
};

template <class Submits>
void expect_solo_answers(Submits& engine, const std::vector<GenerationRequest>& requests,
                         const std::vector<std::vector<Seen>>& solo) {
  const auto gate = std::make_shared<Gate>();
  GenerationRequest first;
  first.prompt = {1};
  first.max_tokens = 1;
  EXPECT_TRUE(engine.submit(first, gate).has_value());
  std::vector<std::shared_ptr<Stream>> streams;
  for (const GenerationRequest& request : requests) streams.push_back(submit(engine, request));
  gate->open();
  for (size_t i = 0; i < streams.size(); ++i) {
    const GenerationEnd end = streams[i]->wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.value_or(Error{}).message;
    EXPECT_TRUE(end.exact);
    EXPECT_TRUE(streams[i]->seen() == solo[i]) << "stream " << i;
  }
}

void run_streams(uint32_t streams, int rounds, uint64_t prompt_max, uint64_t answer_max) {
  const auto engine = open_engine(options_of(streams));
  for (int round = 0; round < rounds; ++round) {
    const auto requests =
        distinct_requests(streams, 100 + static_cast<uint64_t>(round), prompt_max, answer_max);
    const auto solo = solo_answers(requests);
    expect_solo_answers(*engine, requests, solo);
    expect_solo_answers(*engine, requests, solo);  // now from the cache
  }
  const EngineCounters counters = engine->counters();
  EXPECT_GT(counters.step_rows_decode, 2 * counters.steps) << "they did run at once";
}

TEST(Concurrency, StreamsEqualTheirSoloRuns) { run_streams(10, 1, 300, 24); }

TEST(ConcurrencySoak, SixtyFourStreamsEqualTheirSoloRuns) { run_streams(64, 10, 500, 40); }

// Some are cancelled at a random token: what they said is what they would have said, the others
// finish.
void run_aborts(uint32_t streams, int rounds) {
  const auto engine = open_engine(options_of(streams / 2));
  const auto requests = distinct_requests(streams, 7, 200, 30);
  const auto solo = solo_answers(requests);
  base::SplitMix64 random(5);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::shared_ptr<Stream>> sinks;
    std::vector<RequestId> ids(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      sinks.push_back(submit(*engine, requests[i], &ids[i]));
    }
    std::vector<bool> aborted(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      if (random.below(2) == 0) continue;
      aborted[i] = true;
      sinks[i]->wait_for_tokens(random.below(requests[i].max_tokens));
      engine->cancel(ids[i]);
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      const FinishReason reason = sinks[i]->wait().reason;
      EXPECT_TRUE(reason == FinishReason::kLength ||
                  (aborted[i] && reason == FinishReason::kCancelled));
      std::vector<Seen> want = solo[i];
      if (reason == FinishReason::kCancelled) want.resize(sinks[i]->seen().size());
      EXPECT_TRUE(sinks[i]->seen() == want) << "stream " << i;
    }
  }
  EXPECT_EQ(engine->counters().running + engine->counters().waiting, 0u);
}

TEST(Concurrency, AbortsHarmNobodyElse) { run_aborts(12, 2); }

TEST(ConcurrencySoak, AbortsHarmNobodyElse) { run_aborts(64, 20); }

// Pools from one that a single request nearly fills; with snapshots, and without.
void run_tight_pools(uint32_t streams, std::vector<uint64_t> pools) {
  const auto layout = arch::make_cache_layout(nano_config(), arch::CacheFormat::kPacked);
  const auto requests = distinct_requests(streams, 9, 240, 140);
  const auto solo = solo_answers(requests);
  for (const uint64_t blocks : pools) {
    for (const uint64_t snapshot_bytes : {uint64_t{0}, uint64_t{1} << 26}) {
      EngineOptions options = options_of(streams);
      options.kv_bytes = blocks * layout.block_bytes;
      options.snapshot_bytes = snapshot_bytes;
      const auto engine = open_engine(options);
      expect_solo_answers(*engine, requests, solo);
      SCOPED_TRACE(blocks);
      if (blocks > 3) {
        EXPECT_GT(engine->counters().step_rows_decode, engine->counters().steps / 2);
      }
    }
  }
}

TEST(Concurrency, TightPoolsDelayButChangeNothing) { run_tight_pools(6, {3, 5, 8}); }

TEST(ConcurrencySoak, TightPoolsDelayButChangeNothing) {
  run_tight_pools(24, {3, 4, 5, 6, 8, 12, 20});
}

// A model runner that now and then finds no room, though there is: somebody is paused at nearly
// every step. (That a pause within an answer loses nothing is batch_test's.)
class Shaky : public StepRunner {
 public:
  explicit Shaky(ModelRunner& runner) : runner_(runner) {}
  uint32_t vocab_size() const override { return runner_.vocab_size(); }
  Result<std::unique_ptr<RunnerSequence>> start(const SequenceSpec& spec) override {
    return runner_.start(spec);
  }
  Result<void> reserve(const Step& step) override {
    if (random_.below(5) == 0 && runner_.cache().counters().live_sequences > 1) {
      return base::fail(ErrorCode::kUnavailable, "no room this time");
    }
    return runner_.reserve(step);
  }
  void unreserve(RunnerSequence& sequence) override { runner_.unreserve(sequence); }
  Result<void> run(std::span<const Step> steps) override { return runner_.run(steps); }
  void finish(RunnerSequence& sequence) override { runner_.finish(sequence); }
  void pause(RunnerSequence& sequence) override { runner_.pause(sequence); }
  uint64_t blocks_available() const override { return runner_.blocks_available(); }

 private:
  ModelRunner& runner_;
  base::SplitMix64 random_{1};
};

// What an engine is made of, with a shaky runner in the middle.
void run_shaky(uint32_t streams, uint64_t snapshot_bytes) {
  const auto checkpoint = arch::Checkpoint::open(nano_model());
  ASSERT_TRUE(checkpoint.has_value());
  const auto tokenizer = open_tokenizer(*checkpoint);
  const auto map = engram_map(*checkpoint, *tokenizer);
  model::ModelOptions model_options;
  model_options.token_map = *map;
  const auto model = model::Model::create(*checkpoint, model_options);
  ASSERT_TRUE(model.has_value()) << model.error().describe();
  ModelRunnerOptions options;
  options.threads = 2;
  options.cache.pool_bytes = 64 << 20;
  options.cache.snapshot_bytes = snapshot_bytes;
  options.checks_cache = true;
  auto runner = ModelRunner::create(**model, options);
  ASSERT_TRUE(runner.has_value());
  Shaky shaky(**runner);
  Scheduler scheduler(shaky, {.prefill_chunk = 40,
                              .queue_requests_max = 1000,
                              .context_tokens = 2000,
                              .sequences_max = streams});
  // The engine masks what has no text.
  auto requests = distinct_requests(streams, 21, 150, 30);
  const auto solo = solo_answers(requests);
  for (GenerationRequest& request : requests) {
    request.masked_tokens = text::unsampled_tokens(**tokenizer);
  }
  expect_solo_answers(scheduler, requests, solo);
  EXPECT_GT(scheduler.counters().pauses, 0u);
}

TEST(Concurrency, PausesAtAnyStepChangeNoBit) {
  run_shaky(5, 1 << 26);
  run_shaky(3, 0);  // without snapshots windows are computed again
}

TEST(ConcurrencySoak, PausesAtAnyStepChangeNoBit) {
  run_shaky(20, 1 << 26);
  run_shaky(8, 0);
}

// The same long prompt many times at once is computed once.
TEST(Concurrency, APromptIsComputedOnce) {
  auto request = distinct_requests(1, 3, 1, 9).front();
  request.prompt = random_ids(900, 17);
  std::vector<GenerationRequest> requests(4, request);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].sampling.seed = i;
  const auto solo = solo_answers(requests);
  const auto engine = open_engine(options_of(8));
  std::vector<std::shared_ptr<Stream>> streams;
  for (const GenerationRequest& of : requests) streams.push_back(submit(*engine, of));
  for (size_t i = 0; i < streams.size(); ++i) {
    const GenerationEnd end = streams[i]->wait();
    EXPECT_EQ(end.cached_tokens, i == 0 ? 0u : 899u);
    EXPECT_EQ(end.computed_tokens, i == 0 ? 900u : 1u);
    EXPECT_TRUE(streams[i]->seen() == solo[i]) << "stream " << i;
  }
}

// Whatever comes at once, for a while: prompts that begin alike, priorities, deadlines and aborts,
// in a pool that is too small.
void run_mixed_load(std::chrono::seconds time) {
  auto requests = distinct_requests(16, 31, 200, 30);
  for (size_t i = 4; i < requests.size(); ++i) {  // beginnings of others
    std::vector<int32_t>& prompt = requests[i].prompt;
    const std::vector<int32_t>& other = requests[i % 4].prompt;
    prompt.insert(prompt.begin(), other.begin(), other.end());
  }
  const auto solo = solo_answers(requests);
  EngineOptions options = options_of(6);
  options.kv_bytes =
      9 * arch::make_cache_layout(nano_config(), arch::CacheFormat::kPacked).block_bytes;
  options.snapshot_bytes = 1 << 20;
  const auto engine = open_engine(options);
  const auto until = std::chrono::steady_clock::now() + time;
  std::atomic<uint64_t> finished{0};
  std::vector<std::thread> clients;
  for (uint64_t client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      base::SplitMix64 random(client);
      while (std::chrono::steady_clock::now() < until) {
        const size_t which = random.below(requests.size());
        GenerationRequest request = requests[which];
        request.priority = static_cast<int32_t>(random.below(3));
        if (random.below(8) == 0) {
          request.deadline_us = base::monotonic_us() + static_cast<int64_t>(random.below(50'000));
        }
        RequestId id = 0;
        const auto stream = submit(*engine, request, &id);
        if (random.below(4) == 0) {
          stream->wait_for_tokens(random.below(request.max_tokens));
          engine->cancel(id);
        }
        const GenerationEnd end = stream->wait();
        std::vector<Seen> want = solo[which];
        if (end.reason != FinishReason::kLength) want.resize(stream->seen().size());
        EXPECT_TRUE(stream->seen() == want) << "request " << which;
        EXPECT_TRUE(end.reason != FinishReason::kError || request.deadline_us) << which;
        ++finished;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(engine->counters().finished, finished.load());
  EXPECT_EQ(engine->counters().running + engine->counters().waiting, 0u);
}

TEST(Concurrency, MixedLoad) { run_mixed_load(std::chrono::seconds(4)); }

TEST(ConcurrencySoak, MixedLoadForAMinute) { run_mixed_load(std::chrono::minutes(1)); }

// Sets the flag when some layer tells of itself.
class StopAtLayer : public model::Trace {
 public:
  StopAtLayer(base::Stop& stop, uint32_t layer) : stop_(stop), layer_(layer) {}
  bool wants(std::string_view quantity) const override { return quantity == "attn_in.layers"; }
  void floats(std::string_view, uint32_t layer, uint64_t, std::span<const float>) override {
    last = layer;
    if (layer == layer_) stop_.request();
  }
  void ints(std::string_view, uint32_t, uint64_t, std::span<const int32_t>) override {}
  uint32_t last = 0;

 private:
  base::Stop& stop_;
  const uint32_t layer_;
};

// A step that nobody waits for any more ends before its next layer, and the sequence is as before.
TEST(Concurrency, AStepStopsBetweenLayers) {
  const auto checkpoint = arch::Checkpoint::open(nano_model());
  const auto tokenizer = open_tokenizer(*checkpoint);
  const auto map = engram_map(*checkpoint, *tokenizer);
  model::ModelOptions options;
  options.token_map = *map;
  const auto model = model::Model::create(*checkpoint, options);
  ASSERT_TRUE(model.has_value());
  const auto layout = arch::make_cache_layout((*model)->config(), (*model)->cache_format());
  const auto cache = cache::PagedCache::create((*model)->config(), layout, {.pool_bytes = 1 << 22});
  ASSERT_TRUE(cache.has_value());
  base::ThreadPool pool(1);
  kernels::Workspace workspace;
  base::Stop stop;
  std::vector<model::SequenceState> states(2, (*model)->new_sequence());
  std::vector<std::unique_ptr<cache::Sequence>> cached;
  std::vector<model::Chunk> chunks(2);
  const std::vector<int32_t> ids = random_ids(20, 1);
  StopAtLayer trace(stop, 2);
  for (size_t i = 0; i < chunks.size(); ++i) {
    cached.push_back(std::move(*(*cache)->open_empty({}, 100)));
    ASSERT_TRUE(cached[i]->reserve(20).has_value());
    chunks[i].state = &states[i];
    chunks[i].rows = &cached[i]->rows();
    chunks[i].ids = ids;
  }
  chunks[0].trace = &trace;
  chunks[0].stop = &stop;
  const auto stopped = (*model)->forward(std::span(chunks).first(1), {pool, workspace});
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(trace.last, 2u);
  EXPECT_EQ(states[0].position, 0u);
  // Its time being over is as good as being told.
  const base::Stop late(base::monotonic_us());
  chunks[0].stop = &late;
  const auto expired = (*model)->forward(std::span(chunks).first(1), {pool, workspace});
  ASSERT_FALSE(expired.has_value());
  EXPECT_EQ(expired.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(states[0].position, 0u);
  // Beside one that goes on, it goes on too.
  EXPECT_TRUE((*model)->forward(chunks, {pool, workspace}).has_value());
  EXPECT_EQ(states[0].position, 20u);
}

}  // namespace
}  // namespace thimble::engine
