// Aim: a learner learns, reproducibly, what it should and only that. Method: short runs at XS and
// below with fixed seeds: first loss (O3), one batch overfitted (O2), balance from a skewed router
// (B1), threads and resumption compared to the bit (R1, R2), everything outside a freeze list moves
// (training spec 3), stored values equal the exported file (Q1), a cut equals the served replay
// (A5).
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "model/reference.h"
#include "train/internal/checkpoint_files.h"
#include "train/internal/learner.h"
#include "train/internal/state_file.h"
#include "train/internal/testing.h"

namespace thimble::train::internal {
namespace {

TrainOptions options_for(const arch::Config& config, uint64_t steps) {
  TrainOptions o;
  o.config = config;
  o.steps = steps;
  o.quantise_weights = false;
  o.quantise_caches = false;
  o.optimizer.newton_schulz = 5;
  o.optimizer.warmup = 0.05;
  return o;
}

class Learning : public testing::Test {
 protected:
  explicit Learning(arch::Config config = xs_config()) : tiny_(std::move(config)) {}

  Learner make(uint32_t threads) {
    pools_.push_back(std::make_unique<base::ThreadPool>(threads));
    Learner learner(options_, tiny_.tables(at::kFloat), *pools_.back());
    learner.begin(begin_values(tiny_.parameters, 1));
    return learner;
  }

  static bool same(const LearnerState& a, const LearnerState& b) {
    for (size_t i = 0; i < a.masters.size(); ++i) {
      if (!at::equal(a.masters[i], b.masters[i])) return false;
      if (a.first[i].defined() && !at::equal(a.first[i], b.first[i])) return false;
    }
    return true;
  }

  std::vector<Batch> pieces(uint64_t seed) const {
    return {random_batch(tiny_.config, {40, 24}, seed), random_batch(tiny_.config, {64}, seed + 1),
            random_batch(tiny_.config, {9, 30}, seed + 2)};
  }

  TinyModel tiny_;
  TrainOptions options_ = options_for(tiny_.config, 100);
  std::vector<std::unique_ptr<base::ThreadPool>> pools_;
};

// O3.
TEST_F(Learning, BeginsAtTheLogarithmOfTheVocabulary) {
  Learner learner = make(1);
  const double loss = learner.evaluate(pieces(1))->cross_entropy;
  EXPECT_NEAR(loss, std::log(256.0), 0.01 * std::log(256.0));
}

// O2.
TEST_F(Learning, OverfitsOneBatch) {
  options_ = options_for(tiny_.config, 150);
  options_.optimizer.rate = 1e-2;
  Learner learner = make(2);
  const std::vector<Batch> batch = {random_batch(tiny_.config, {48}, 1),
                                    random_batch(tiny_.config, {48}, 2)};
  double loss = 0;
  for (int step = 0; step < 150; ++step) loss = learner.step(batch)->cross_entropy;
  EXPECT_LT(loss, 0.05);
}

// R2, with rounded weights and caches.
TEST_F(Learning, DoesNotDependOnThreads) {
  options_.quantise_weights = options_.quantise_caches = true;
  Learner one = make(1);
  Learner two = make(2);
  for (uint64_t step = 0; step < 3; ++step) {
    const auto a = one.step(pieces(10 * step));
    const auto b = two.step(pieces(10 * step));
    ASSERT_TRUE(a.has_value() && b.has_value());
    EXPECT_EQ(a->cross_entropy, b->cross_entropy);
  }
  EXPECT_TRUE(same(one.state(), two.state()));
}

// Ctrl-C within a long step: what follows is as if it had not begun.
TEST_F(Learning, LeavesAStepWithoutATrace) {
  Learner whole = make(2);
  Learner left = make(2);
  std::atomic<int> asked = 0;
  const auto second = [&] { return ++asked >= 2; };
  EXPECT_EQ(left.step(pieces(0), second).error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(same(left.state(), whole.state()));
  for (Learner* learner : {&whole, &left}) ASSERT_TRUE(learner->step(pieces(0)).has_value());
  EXPECT_TRUE(same(left.state(), whole.state()));
}

// R1.
TEST_F(Learning, ResumesToTheBit) {
  const base::TempDir dir;
  const Path file = dir.path() / "state.safetensors";
  Learner whole = make(2);
  Learner first = make(2);
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_TRUE(whole.step(pieces(step)).has_value());
    ASSERT_TRUE(first.step(pieces(step)).has_value());
  }
  ASSERT_TRUE(write_state(file, tiny_.parameters, first.state(), {3, 4, 5, -6}).has_value());
  Learner second = make(2);
  const auto counters = read_state(file, tiny_.parameters, second.state());
  ASSERT_TRUE(counters.has_value());
  EXPECT_EQ(counters->row, 4);
  EXPECT_EQ(counters->data, -6);
  EXPECT_TRUE(same(second.state(), first.state()));
  ASSERT_TRUE(whole.step(pieces(7)).has_value());
  ASSERT_TRUE(second.step(pieces(7)).has_value());
  EXPECT_TRUE(same(whole.state(), second.state()));
  // Another model's state is refused.
  const TinyModel other(xxs_config());
  LearnerState wrong;
  wrong.masters = begin_values(other.parameters, 1);
  wrong.first.resize(wrong.masters.size());
  wrong.second.resize(wrong.masters.size());
  EXPECT_FALSE(read_state(file, other.parameters, wrong).has_value());
  // So is a place that there cannot be.
  ASSERT_TRUE(write_state(file, tiny_.parameters, first.state(), {3, -4, 5, 6}).has_value());
  EXPECT_EQ(read_state(file, tiny_.parameters, second.state()).error().code, ErrorCode::kCorrupt);
}

// After ten steps everything has moved, but what is frozen.
TEST_F(Learning, MovesEveryParameter) {
  for (const bool freeze : {false, true}) {
    options_.index.freeze = freeze;
    Learner learner = make(2);
    const auto before = begin_values(tiny_.parameters, 1);
    for (uint64_t step = 0; step < 10; ++step) ASSERT_TRUE(learner.step(pieces(step)).has_value());
    for (size_t i = 0; i < before.size(); ++i) {
      const Parameter& p = tiny_.parameters[i];
      const bool moved = !at::equal(before[i], learner.state().masters[i]);
      EXPECT_EQ(moved, !(freeze && p.owner == Owner::kIndexer)) << p.name;
    }
  }
}

// B1: a router that begins with favourites spreads its tokens.
TEST_F(Learning, SpreadsASkewedRouter) {
  options_ = options_for(tiny_.config, 120);
  options_.optimizer.balance_speed = 0.01;
  Learner learner = make(2);
  for (size_t i = 0; i < tiny_.parameters.size(); ++i) {
    if (tiny_.parameters[i].update == Update::kBalance) {
      learner.state().masters[i].copy_(at::tensor({0.4f, 0.1f, -0.1f, -0.4f}));
    }
  }
  const double before = learner.step(pieces(0))->entropy_min;
  double after = 0;
  for (uint64_t step = 1; step < 120; ++step) after = learner.step(pieces(step))->entropy_mean;
  EXPECT_LT(before, 0.8);
  EXPECT_GT(after, 0.97);
}

// What is trained with is what is written, and what the reference then says.
TEST_F(Learning, ExportLosesNothing) {
  options_.quantise_weights = options_.quantise_caches = true;
  Learner learner = make(2);
  for (uint64_t step = 0; step < 3; ++step) ASSERT_TRUE(learner.step(pieces(step)).has_value());
  const base::TempDir dir;
  const auto& masters = learner.state().masters;
  ASSERT_TRUE(export_values(tiny_.config, tiny_.parameters, masters, dir.path()).has_value());
  const auto checkpoint = arch::Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().describe();
  const auto read = import_values(*checkpoint, tiny_.parameters);
  std::vector<Tensor> wide;
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_TRUE(at::equal(read[i], stored_value(tiny_.parameters[i], masters[i])))
        << tiny_.parameters[i].name;
    EXPECT_TRUE(at::equal(stored_value(tiny_.parameters[i], read[i]), read[i]));
    wide.push_back(read[i].to(at::kDouble));
  }
  const Batch batch = random_batch(tiny_.config, {50}, 8);
  const at::NoGradGuard no_grad;
  const Layout layout = make_layout(tiny_.tables(at::kDouble), batch);
  const Tensor logits = Graph(tiny_.config, tiny_.plan)
                            .logits(bind_tensors(tiny_.config, tiny_.plan, wide), layout, {})
                            .logits.to(at::kFloat)
                            .contiguous();
  model::ReferenceOptions options;
  options.token_map = tiny_.map;
  const auto expected = *(*model::Reference::create(*checkpoint, options))->forward(batch.tokens);
  const Tensor wanted = at::from_blob(const_cast<float*>(expected.data()), logits.sizes());
  EXPECT_TRUE(at::allclose(logits, wanted, 1e-4, 1e-5));
}

// A5: the decoder half begun anew at a cut is what serving replays.
TEST_F(Learning, ACutIsTheServedReplay) {
  const base::TempDir dir;
  const auto values = lively_values(tiny_.parameters, 3);
  ASSERT_TRUE(export_values(tiny_.config, tiny_.parameters, values, dir.path()).has_value());
  const auto checkpoint = arch::Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.has_value());
  std::vector<Tensor> wide;
  for (const Tensor& v : import_values(*checkpoint, tiny_.parameters)) {
    wide.push_back(v.to(at::kDouble));
  }
  Batch batch = random_batch(tiny_.config, {60}, 8);
  batch.documents[0].segments = {{37, 60, 37}};
  const at::NoGradGuard no_grad;
  const Layout layout = make_layout(tiny_.tables(at::kDouble), batch);
  const Tensor logits = Graph(tiny_.config, tiny_.plan)
                            .logits(bind_tensors(tiny_.config, tiny_.plan, wide), layout, {})
                            .logits.to(at::kFloat)
                            .contiguous();
  model::ReferenceOptions options;
  options.token_map = tiny_.map;
  auto reference = *model::Reference::create(*checkpoint, options);
  ASSERT_TRUE(reference->forward(std::span(batch.tokens).first(50)).has_value());
  reference->resume(50, 0, 37);
  const auto expected = *reference->forward(batch.tokens);
  ASSERT_EQ(static_cast<int64_t>(expected.size()), logits.numel());
  const Tensor wanted = at::from_blob(const_cast<float*>(expected.data()), logits.sizes());
  EXPECT_TRUE(at::allclose(logits, wanted, 1e-5, 1e-5));
}

}  // namespace
}  // namespace thimble::train::internal
