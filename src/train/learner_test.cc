// Aim: a learner learns, reproducibly, what it should and only that. Method: short runs at XS and
// below with fixed seeds: first loss (O3), one batch overfitted (O2), balance from a skewed router
// (B1), threads and resumption compared to the bit (R1, R2), everything outside a freeze list moves
// (training spec 3), stored values equal the exported file (Q1), a cut equals the served replay
// (A5). Clipping and rates are read from the first step's momenta and moves; what changes within a
// run, from figures just before and just after. Streams come apart (H1, slow).
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
  StepFigures after;
  for (uint64_t step = 1; step < 120; ++step) after = *learner.step(pieces(step));
  EXPECT_LT(before, 0.8);
  EXPECT_GT(after.entropy_mean, 0.97);
  EXPECT_GT(after.entropy_min, 0.97);  // no layer is left behind
}

// A first momentum after the first step, as the gradient that it was made of.
Tensor gradient_of(const Parameter& p, const Tensor& first) {
  const bool adam = p.update == Update::kAdam || p.update == Update::kAdamDecayed;
  return first / (p.update == Update::kMuon ? 1.0 : adam ? 0.1 : 0.05);
}

bool is_clipped(const Parameter& p) {
  return p.owner != Owner::kIndexer && p.owner != Owner::kEngramTable;
}

// One norm over the backbone's gradients; those of indexer and tables neither count nor shrink.
TEST_F(Learning, ClipsTheBackboneAlone) {
  const auto stepped = [&](double clip, double index_weight, LearnerState& state) {
    options_.optimizer.clip = clip;
    options_.index.weight = index_weight;
    Learner learner = make(2);
    const double norm = learner.step(pieces(0))->gradient_norm;
    state = learner.state();
    return norm;
  };
  LearnerState whole, loud, clipped;
  const double norm = stepped(0, 1, whole);
  EXPECT_EQ(stepped(0, 1000, loud), norm);
  constexpr double kClip = 1e-3;
  ASSERT_GT(norm, 100 * kClip);
  EXPECT_EQ(stepped(kClip, 1, clipped), norm);
  double square = 0;
  for (size_t i = 0; i < tiny_.parameters.size(); ++i) {
    const Parameter& p = tiny_.parameters[i];
    if (p.update == Update::kBalance) continue;
    const Tensor gradient = gradient_of(p, whole.first[i]);
    if (!is_clipped(p)) {
      EXPECT_GT(gradient.abs().max().item<double>(), 0) << p.name;
      EXPECT_TRUE(at::equal(clipped.first[i], whole.first[i])) << p.name;
      continue;
    }
    square += std::pow(gradient.norm().item<double>(), 2);
    const double bound = 1e-5 * gradient.abs().max().item<double>() + 1e-12;
    const Tensor gap = gradient_of(p, clipped.first[i]) * (norm / kClip) - gradient;
    EXPECT_LE(gap.abs().max().item<double>(), bound) << p.name;
  }
  EXPECT_NEAR(std::sqrt(square), norm, 1e-4 * norm);
}

// Steps are proportional to the rate of the moment, indexer and tables have factors of their own.
TEST_F(Learning, MovesAtTheRateOfTheStep) {
  const auto moved = [&] {
    Learner learner = make(2);
    EXPECT_TRUE(learner.step(pieces(0)).has_value());
    std::vector<Tensor> out = begin_values(tiny_.parameters, 1);
    for (size_t i = 0; i < out.size(); ++i) out[i] = learner.state().masters[i] - out[i];
    return out;
  };
  options_.optimizer.warmup = 0;
  options_.optimizer.engram_table_rate = options_.optimizer.indexer_rate = 1;
  const auto full = moved();
  options_.optimizer.warmup = 0.08;  // of 100 steps: the first one has an eighth
  options_.optimizer.engram_table_rate = 8;
  options_.optimizer.indexer_rate = 24;
  const auto slow = moved();
  for (size_t i = 0; i < full.size(); ++i) {
    const Parameter& p = tiny_.parameters[i];
    if (p.update == Update::kBalance) continue;
    const double factor = p.owner == Owner::kIndexer       ? 24.0 / 8
                          : p.owner == Owner::kEngramTable ? 1
                                                           : 1.0 / 8;
    const double scale = full[i].abs().max().item<double>() * factor;
    EXPECT_GT(scale, 0) << p.name;
    const Tensor gap = slow[i] - full[i] * factor;
    EXPECT_LT(gap.abs().max().item<double>(), 1e-2 * scale) << p.name;
  }
}

// What changes at half of a run of four steps, seen at its second and its third.
class HalfWay : public Learning {
 protected:
  HalfWay() { options_.steps = 4; }

  StepFigures step_at(int64_t done, Learner learner) {
    learner.state().step = done;
    return *learner.step(pieces(3));
  }
  StepFigures step_at(int64_t done) { return step_at(done, make(2)); }
};

TEST_F(HalfWay, QuantisationBegins) {
  const auto loss = [&](int64_t done, bool weights, bool caches, double from) {
    options_.quantise_weights = weights;
    options_.quantise_caches = caches;
    options_.quantise_from = from;
    return step_at(done).cross_entropy;
  };
  const double plain = loss(0, false, false, 0);
  const double weights = loss(0, true, false, 0);
  const double caches = loss(0, false, true, 0);
  const double both = loss(0, true, true, 0);
  EXPECT_NE(plain, weights);
  EXPECT_NE(plain, caches);
  EXPECT_NE(weights, both);
  EXPECT_NE(caches, both);
  EXPECT_EQ(loss(1, true, true, 0.5), plain);
  EXPECT_EQ(loss(2, true, true, 0.5), both);
  EXPECT_EQ(loss(2, true, false, 0.5), weights);
  EXPECT_EQ(loss(2, false, true, 0.5), caches);
}

// The score of a moment is that of its form.
TEST_F(HalfWay, ScoresChangeWithIt) {
  options_.quantise_weights = options_.quantise_caches = true;
  options_.quantise_from = 0.5;
  Learner learner = make(2);
  const auto loss = [&](const EvaluationForm& form) {
    return learner.evaluate(pieces(3), form)->cross_entropy;
  };
  const double plain = loss({.stored_weights = false, .round_caches = false});
  const double served = loss({});
  EXPECT_NE(plain, served);
  learner.state().step = 1;
  EXPECT_EQ(learner.evaluate(pieces(3))->cross_entropy, plain);
  learner.state().step = 2;
  EXPECT_EQ(learner.evaluate(pieces(3))->cross_entropy, served);
}

TEST_F(HalfWay, TheIndexerSeesTheSelectionAlone) {
  const auto loss = [&](int64_t done, IndexSupport support, double until) {
    options_.index.support = support;
    options_.all_visible_until = until;
    return step_at(done).indexer;
  };
  const double all = loss(0, IndexSupport::kAllVisible, 0);
  const double selected = loss(0, IndexSupport::kSelected, 0);
  EXPECT_NE(all, selected);
  EXPECT_EQ(loss(1, IndexSupport::kSelected, 0.5), all);
  EXPECT_EQ(loss(2, IndexSupport::kSelected, 0.5), selected);
}

TEST_F(HalfWay, SlotsBecomeFew) {
  options_.row_tokens = 64;
  const StepFigures few = step_at(0);
  EXPECT_GT(few.index.bound, 0);
  options_.k_schedule = KSchedule::kDense;
  options_.k_until = 0.5;
  const StepFigures dense = step_at(1);
  EXPECT_EQ(dense.index.bound, 0);
  EXPECT_NE(dense.cross_entropy, few.cross_entropy);
  EXPECT_EQ(step_at(2).cross_entropy, few.cross_entropy);
}

// Exploring is for steps, other entries each time; scores are without.
TEST_F(HalfWay, ExploringIsAnewEachStep) {
  const double plain = step_at(0).cross_entropy;
  const double score = make(2).evaluate(pieces(3))->cross_entropy;
  options_.index.explore = 1;
  const double explored = step_at(0).cross_entropy;
  EXPECT_NE(explored, plain);
  EXPECT_EQ(step_at(0).cross_entropy, explored);
  EXPECT_NE(step_at(1).cross_entropy, explored);
  EXPECT_EQ(make(2).evaluate(pieces(3))->cross_entropy, score);
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

// The streams as the last layer leaves them, each row of norm one: [streams][rows, width]. The last
// mix is told to read one stream and the head to show it.
std::vector<Tensor> last_streams(const TinyModel& tiny, const std::vector<Tensor>& masters,
                                 const Batch& batch) {
  const at::NoGradGuard no_grad;
  const int64_t copies = tiny.config.hc_mult;
  const Layout layout = make_layout(tiny.tables(at::kFloat), batch);
  std::vector<Tensor> out;
  for (int64_t k = 0; k < copies; ++k) {
    ModelTensors weights = bind_tensors(tiny.config, tiny.plan, masters);
    weights.head = at::eye(tiny.config.hidden_size);
    weights.norm = at::ones({tiny.config.hidden_size});
    HyperTensors& last = weights.layers.back().hyper_ffn;
    last.fn = last.fn.clone();
    last.fn.narrow(0, 0, copies).zero_();
    last.base = last.base.clone();
    last.base.narrow(0, 0, copies).fill_(-40);
    last.base[k] = 40;
    ForwardOptions options;
    options.round_caches = false;
    const Tensor rows = Graph(tiny.config, tiny.plan).logits(weights, layout, options).logits;
    out.push_back(rows / rows.norm(2, 1, true));
  }
  return out;
}

// Mean cosine of two streams of a row, over all pairs.
double likeness(const std::vector<Tensor>& streams) {
  double sum = 0;
  int pairs = 0;
  for (size_t a = 0; a < streams.size(); ++a) {
    for (size_t b = 0; b < a; ++b, ++pairs) {
      sum += (streams[a] * streams[b]).sum(1).mean().item<double>();
    }
  }
  return sum / pairs;
}

class SlowStreams : public Learning {};

// H1: they begin nearly alike (0.99999: one output is added to all) and come apart.
TEST_F(SlowStreams, DoNotCollapse) {
  options_ = options_for(tiny_.config, 500);
  Learner learner = make(2);
  for (uint64_t step = 0; step < 500; ++step) {
    ASSERT_TRUE(learner.step(pieces(10 * (step % 4))).has_value());
  }
  const Batch batch = random_batch(tiny_.config, {64}, 1000);
  EXPECT_LT(likeness(last_streams(tiny_, learner.state().masters, batch)), 0.99);
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
