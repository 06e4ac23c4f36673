// Aim: the engine's forward agrees with the published implementation, and every route through it
// gives the same bits. Method: golden vectors of t1 and t2 in the modes the engine has; then every
// cut, chunk size, thread count and batch neighbour compared bit for bit with one another.
#include "model/forward.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "cache/paged_cache.h"
#include "engine/forced_run.h"
#include "tests/golden/collector.h"
#include "tests/golden/model_case.h"

namespace thimble::golden {
namespace {

using engine::Cuts;
using model::IndexKeys;
using model::Mode;

class Forward : public ::testing::TestWithParam<const char*> {
 protected:
  Forward() : golden_(GetParam()) {}

  std::unique_ptr<model::Model> make(Mode mode, IndexKeys keys = IndexKeys::kOwn) const {
    model::ModelOptions options;
    options.mode = mode;
    options.index_keys = keys;
    options.token_map = golden_.token_map;
    auto model = model::Model::create(golden_.checkpoint, options);
    CHECK(model.has_value());
    return std::move(*model);
  }

  std::vector<float> run(const model::Model& model, const Cuts& cuts, model::Trace* trace = nullptr,
                         uint32_t threads = 2) const {
    base::ThreadPool pool(threads);
    auto logits = engine::run_forced(model, golden_.ids, cuts, pool, trace);
    CHECK(logits.has_value());
    return std::move(*logits);
  }

  std::span<const float> after_prefill(const std::vector<float>& logits) const {
    return std::span<const float>(logits).subspan(golden_.prefill *
                                                  golden_.checkpoint.config().vocab_size);
  }

  ModelCase golden_;
};

TEST_P(Forward, NokvqIsSharp) {
  Collector trace;
  const auto logits = run(*make(Mode::kNokvq), {golden_.total}, &trace);
  const auto file = golden_.vectors("exact_nokvq");
  EXPECT_LE(distance(logits, view(file, "logits").as<float>()).max_abs, 2e-4);
  expect_equal_decisions(trace, file);
}

TEST_P(Forward, ExactWithinTheGoldensMargins) {
  Collector trace;
  const auto logits = run(*make(Mode::kExact), {golden_.total}, &trace);
  const auto file = golden_.vectors("exact");
  const Distance d = distance(logits, view(file, "logits").as<float>(), 1e-3);
  EXPECT_LE(d.median, 1e-4);
  EXPECT_LE(d.max_abs, 5e-2);
  expect_equal_decisions(trace, file);
  size_t compared = 0;
  for (const auto& [name, expected] : file.tensors()) {
    const auto rows = trace.float_rows().find(name);
    if (rows == trace.float_rows().end()) continue;
    // One flipped code moves a few values; a wrong formula moves them all.
    const Distance q = distance(rows->second, expected, 1e-3);
    EXPECT_LE(q.median, 1e-4) << name;
    EXPECT_LE(static_cast<double>(q.beyond), 0.001 * static_cast<double>(q.compared)) << name;
    ++compared;
  }
  EXPECT_GT(compared, 20u);
}

TEST_P(Forward, DecodeMatchesTheGoldens) {
  const auto file = golden_.vectors("decode");
  const Cuts cuts{golden_.total, golden_.prefill};
  const auto own = run(*make(Mode::kExact), cuts);
  const Distance d = distance(after_prefill(own), view(file, "logits.exact").as<float>());
  EXPECT_LE(d.median, 1e-4);
  EXPECT_LE(d.max_abs, 5e-2);
  const auto stale = run(*make(Mode::kExact, IndexKeys::kStale), cuts);
  const Distance s =
      distance(after_prefill(stale), view(file, "logits.exact_literal_slot").as<float>());
  EXPECT_LE(s.median, 1e-4);
  EXPECT_LE(s.max_abs, 5e-2);
  EXPECT_GE(distance(after_prefill(stale), after_prefill(own)).rms, 0.1);
}

// The fast mode rounds activations of FP4 products only, to int8; that moves logits less than the
// published activation quantisation does, which rounds those of FP8 products too.
TEST_P(Forward, FastStaysWithinItsBound) {
  const auto exact_file = golden_.vectors("exact");
  const auto actq_file = golden_.vectors("actq");
  const auto exact = view(exact_file, "logits").as<float>();
  const double allowed = distance(view(actq_file, "logits").as<float>(), exact).rms;
  const auto model = make(Mode::kFast);
  const Distance fast = distance(run(*model, {golden_.total}), exact);
  EXPECT_LE(fast.rms, 1.5 * allowed) << "actq moves logits by rms " << allowed;
  EXPECT_GT(fast.rms, 0);
  RecordProperty("fast_rms", std::to_string(fast.rms));
  RecordProperty("actq_rms", std::to_string(allowed));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(Forward, EveryRouteGivesTheSameBits) {
  const uint64_t window = golden_.checkpoint.config().sliding_window;
  for (const Mode mode : {Mode::kExact, Mode::kNokvq, Mode::kFast}) {
    const auto model = make(mode);
    const auto whole = run(*model, {golden_.total});
    for (const uint64_t chunk : {uint64_t{3}, uint64_t{9}, window}) {
      EXPECT_TRUE(same_bits(run(*model, {chunk}), whole)) << "chunk " << chunk;
    }
    EXPECT_TRUE(same_bits(run(*model, {golden_.total, 1}), whole)) << "token by token";
    EXPECT_TRUE(same_bits(run(*model, {17, 150}, nullptr, 3), whole)) << "three threads";
  }
}

// The same at every chunk size and every cut up to twice the window; label slow.
TEST_P(Forward, SweepOfChunksAndCuts) {
  const uint64_t window = golden_.checkpoint.config().sliding_window;
  const auto model = make(Mode::kExact);
  const auto whole = run(*model, {golden_.total});
  for (uint64_t size = 1; size <= 2 * window + 2; ++size) {
    EXPECT_TRUE(same_bits(run(*model, {size}), whole)) << "chunk " << size;
    EXPECT_TRUE(same_bits(run(*model, {golden_.total, size}), whole)) << "decode from " << size;
  }
}

// Two sequences in one call, cut differently: each as if it were alone.
TEST_P(Forward, NeighboursDoNotMatter) {
  const auto model = make(Mode::kExact);
  const uint64_t vocab = model->config().vocab_size;
  const auto alone = run(*model, {golden_.total});
  const auto layout = arch::make_cache_layout(model->config(), model->cache_format());
  base::ThreadPool pool(2);
  kernels::Workspace workspace;
  const auto paged = *cache::PagedCache::create(
      model->config(), layout, {.pool_bytes = 2 * layout.reserved_bytes(golden_.total)});
  std::vector<std::unique_ptr<cache::Sequence>> caches;
  std::vector<model::SequenceState> states(2, model->new_sequence());
  std::vector<std::vector<float>> logits(2, std::vector<float>(alone.size()));
  for (int s = 0; s < 2; ++s) {
    caches.push_back(*paged->open_empty({}, golden_.total));
    ASSERT_TRUE(caches.back()->reserve(golden_.total));
  }
  base::SplitMix64 random(1);
  const std::span<const int32_t> ids(golden_.ids);
  while (states[0].position < ids.size() || states[1].position < ids.size()) {
    std::vector<model::Chunk> chunks;
    for (size_t s = 0; s < 2; ++s) {
      const uint64_t done = states[s].position;
      const uint64_t length = std::min<uint64_t>(random.below(20), ids.size() - done);
      if (length == 0) continue;
      model::Chunk& chunk = chunks.emplace_back();
      chunk.state = &states[s];
      chunk.rows = &caches[s]->rows();
      chunk.ids = ids.subspan(done, length);
      chunk.logit_rows = static_cast<uint32_t>(length);
      chunk.logits = logits[s].data() + done * vocab;
    }
    ASSERT_TRUE(model->forward(chunks, {pool, workspace}));
  }
  EXPECT_TRUE(same_bits(logits[0], alone));
  EXPECT_TRUE(same_bits(logits[1], alone));
}

TEST_P(Forward, RefusesTokensOutsideTheVocabularyAndLeavesTheStateAlone) {
  const auto model = make(Mode::kFast);
  const auto vocab = static_cast<int32_t>(model->config().vocab_size);
  base::ThreadPool pool(1);
  for (const int32_t bad : {-1, vocab, INT32_MAX, INT32_MIN}) {
    const std::vector<int32_t> ids = {1, 2, bad};
    const auto result = engine::run_forced(*model, ids, {8}, pool);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find(std::to_string(bad)), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Forward, ::testing::Values("t1_mini", "t2_text_minimal"));

}  // namespace
}  // namespace thimble::golden
