// Aim: across a hit, exact rows are the cold run's bits, bounded ones exist exactly where the
// policy runs them, and rows below the hit are never the replayed ones. Method: the smallest golden
// model, hits at every edge, every way of cutting.
#include "engine/resumed_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "arch/checkpoint.h"
#include "engine/testing.h"
#include "model/trace.h"
#include "tests/golden/golden.h"

namespace thimble::engine {
namespace {

// Rows that were spoken of, layer by layer, and how often.
class Rows : public model::Trace {
 public:
  bool wants(std::string_view quantity) const override { return quantity == "expert_ids.layers"; }
  void floats(std::string_view, uint32_t, uint64_t, std::span<const float>) override {}
  void ints(std::string_view, uint32_t layer, uint64_t row, std::span<const int32_t>) override {
    ++seen[{layer, row}];
  }
  std::map<std::pair<uint32_t, uint64_t>, int> seen;
};

class ResumedRun : public testing::Test {
 protected:
  static constexpr uint64_t kTokens = 40;

  ResumedRun()
      : checkpoint_(*arch::Checkpoint::open(golden::path("t2_text_minimal/model"))),
        model_(*model::Model::create(checkpoint_, {})),
        ids_(random_ids(kTokens, 1)) {
    for (int32_t& id : ids_) id %= static_cast<int32_t>(checkpoint_.config().vocab_size);
    cold_ = *run_forced(*model_, ids_, {}, pool_);
  }

  std::vector<float> resumed(const Resumption& how, model::Trace* trace = nullptr) {
    const auto logits = run_resumed(*model_, ids_, how, pool_, trace);
    EXPECT_TRUE(logits.has_value()) << logits.error().describe();
    return *logits;
  }
  // The rows of [begin, end) are the cold run's bits.
  bool is_cold(const std::vector<float>& logits, uint64_t begin, uint64_t end) const {
    const uint64_t vocab = checkpoint_.config().vocab_size;
    return std::memcmp(&logits[begin * vocab], &cold_[begin * vocab],
                       (end - begin) * vocab * sizeof(float)) == 0;
  }
  bool is_nan(const std::vector<float>& logits, uint64_t row) const {
    return std::isnan(logits[row * checkpoint_.config().vocab_size]);
  }

  arch::Checkpoint checkpoint_;
  std::unique_ptr<model::Model> model_;
  std::vector<int32_t> ids_;
  std::vector<float> cold_;
  base::ThreadPool pool_{1};
};

TEST_F(ResumedRun, ExactIsTheColdRunForEveryHitAndCut) {
  for (uint64_t hit = 0; hit < kTokens; ++hit) {
    for (const Cuts cuts : {Cuts{}, Cuts{.chunk = 3}, Cuts{.chunk = 5, .decode_from = 30}}) {
      EXPECT_TRUE(is_cold(resumed({hit, Replay::kExact, cuts}), 0, kTokens)) << "hit " << hit;
    }
  }
}

TEST_F(ResumedRun, BoundedHasTheRowsOfTheLastWindow) {
  const uint64_t window = model_->plan().window;
  ASSERT_LT(window, kTokens / 2);
  for (const uint64_t hit : {uint64_t{0}, uint64_t{1}, window, kTokens - 1 - window, kTokens - 2}) {
    const auto logits = resumed({hit, Replay::kBounded, {}});
    EXPECT_TRUE(is_cold(logits, 0, hit)) << "rows below the hit are the first run's";
    // A replay that would begin at 0 is the cold run, and bounds nothing.
    const uint64_t first = hit <= window ? 0 : std::max(hit, kTokens - window);
    for (uint64_t row = hit; row < kTokens; ++row) {
      EXPECT_EQ(is_nan(logits, row), row < first) << "hit " << hit << " row " << row;
    }
    const auto cut = resumed({hit, Replay::kBounded, {.chunk = 1}});
    EXPECT_EQ(std::memcmp(cut.data(), logits.data(), cut.size() * sizeof(float)), 0)
        << "hit " << hit;
  }
}

TEST_F(ResumedRun, AutoIsExactWithoutAHitAndAfterEnoughText) {
  EXPECT_TRUE(is_cold(resumed({0, Replay::kAuto, {}}), 0, kTokens));
  const uint64_t cone = arch::decoder_cone(model_->plan());
  if (cone < kTokens) {
    EXPECT_TRUE(is_cold(resumed({kTokens - cone, Replay::kAuto, {}}), 0, kTokens));
  }
  EXPECT_GT(resumed_rows(model_->plan(), 1000 + cone - 1, {1000, Replay::kAuto, {}})
                .layers.back()
                .rows_begin,
            1000u);
}

// Replayed rows below the hit are not spoken of: the first run was.
TEST_F(ResumedRun, TraceHearsOfEachRowOnce) {
  for (const Replay replay : {Replay::kExact, Replay::kBounded}) {
    Rows rows;
    resumed({20, replay, {}}, &rows);
    for (const auto& [where, times] : rows.seen) EXPECT_EQ(times, 1) << where.second;
    if (replay == Replay::kExact) {
      EXPECT_EQ(rows.seen.size(), kTokens * model_->plan().layers.size());
    }
  }
}

}  // namespace
}  // namespace thimble::engine
