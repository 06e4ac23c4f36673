// Aim: the trainable forward pass is the model, and its gradients are right.
// Method: A4: random checkpoints through model/reference and through the graph, in float64 (all
// cache roundings, where one flipped code would show) and float32. G1, G2: float64 central
// differences against autograd for parameters of every tensor. A1, A3, A5, D1, G4: contracts that
// hold bit for bit or to rounding.
#include <gtest/gtest.h>

#include "arch/random_weights.h"
#include "base/random.h"
#include "model/reference.h"
#include "train/internal/checkpoint_files.h"
#include "train/internal/testing.h"

namespace thimble::train::internal {
namespace {

std::vector<Tensor> as_type(const std::vector<Tensor>& values, at::ScalarType type) {
  std::vector<Tensor> out;
  for (const Tensor& v : values) out.push_back(v.to(type));
  return out;
}

double worst_difference(const Tensor& a, std::span<const float> b, double& scale) {
  const Tensor wide = a.detach().to(at::kDouble).contiguous();
  CHECK_EQ(wide.numel(), static_cast<int64_t>(b.size()));
  double worst = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    worst = std::max(worst, std::abs(wide.data_ptr<double>()[i] - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return worst;
}

class AgainstReference : public testing::Test {
 protected:
  AgainstReference() : tiny_(xs_config()) {
    const auto written =
        arch::write_random_checkpoint(tiny_.config, dir_.path(), 5, [](uint64_t) {});
    CHECK(written.has_value());
    checkpoint_.emplace(*arch::Checkpoint::open(dir_.path()));
    values_ = import_values(*checkpoint_, tiny_.parameters);
  }

  std::unique_ptr<model::Reference> reference(model::ReferenceMode mode) {
    model::ReferenceOptions options;
    options.mode = mode;
    options.token_map = tiny_.map;
    return std::move(*model::Reference::create(*checkpoint_, options));
  }

  Tensor run(const Batch& batch, bool round_caches, at::ScalarType type) {
    const at::NoGradGuard no_grad;
    ForwardOptions options;
    options.round_caches = round_caches;
    const Layout layout = make_layout(tiny_.tables(type), batch);
    const ModelTensors weights = bind_tensors(tiny_.config, tiny_.plan, as_type(values_, type));
    return Graph(tiny_.config, tiny_.plan).logits(weights, layout, options).logits;
  }

  TinyModel tiny_;
  base::TempDir dir_;
  std::optional<arch::Checkpoint> checkpoint_;
  std::vector<Tensor> values_;
};

// A4. Documents packed beside each other give what each gives alone.
TEST_F(AgainstReference, LogitsEqual) {
  const Batch batch = random_batch(tiny_.config, {97, 1, 60}, 3);
  for (const bool round_caches : {false, true}) {
    std::vector<float> expected;
    for (const Document& d : batch.documents) {
      const auto oracle =
          reference(round_caches ? model::ReferenceMode::kExact : model::ReferenceMode::kNokvq);
      const std::span<const int32_t> ids(batch.tokens.data() + d.begin,
                                         static_cast<size_t>(d.end - d.begin));
      const auto logits = *oracle->forward(ids);
      expected.insert(expected.end(), logits.begin(), logits.end());
    }
    double scale = 0;
    const double wide = worst_difference(run(batch, round_caches, at::kDouble), expected, scale);
    EXPECT_LT(wide, 2e-6 * scale) << "rounded caches: " << round_caches;
    if (round_caches) continue;  // float32 may flip a code: not comparable
    EXPECT_LT(worst_difference(run(batch, false, at::kFloat), expected, scale), 1e-4 * scale);
  }
}

// --- gradients

enum class Term { kModel, kIndexer };

class Gradients : public testing::Test {
 protected:
  Gradients() : tiny_(xxs_config()) {
    values_ = as_type(lively_values(tiny_.parameters, 11), at::kDouble);
    for (Tensor& v : values_) v.set_requires_grad(true);
    batch_ = random_batch(tiny_.config, {23, 5}, 4);
    batch_.documents[0].segments = {{0, 15, 0}, {10, 23, 15}};  // the second one is a replay
    layout_.emplace(make_layout(tiny_.tables(at::kDouble), batch_));
    options_.round_caches = false;
    options_.balance_weight = 0.1;
  }

  ForwardResult run() const {
    const LossScales scales{0.05, 0.03};
    return Graph(tiny_.config, tiny_.plan)
        .losses(bind_tensors(tiny_.config, tiny_.plan, values_), *layout_, options_, scales);
  }

  static Tensor term_of(const ForwardResult& result, Term term) {
    return term == Term::kIndexer ? result.indexer : result.cross_entropy + result.balance;
  }

  std::vector<Tensor> gradients(Term term) const {
    std::vector<Tensor> wanted;
    for (const Tensor& v : values_) wanted.push_back(v);
    auto grads =
        torch::autograd::grad({term_of(run(), term)}, wanted, {}, c10::nullopt, false, true);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) grads[i] = at::zeros_like(values_[i]);
    }
    return grads;
  }

  // Central difference of element `at` of value `i`.
  double difference(size_t i, int64_t at, Term term, double step) {
    const at::NoGradGuard no_grad;
    double* x = values_[i].data_ptr<double>() + at;
    const double old = *x;
    *x = old + step;
    const double up = term_of(run(), term).item<double>();
    *x = old - step;
    const double down = term_of(run(), term).item<double>();
    *x = old;
    return (up - down) / (2 * step);
  }

  bool belongs(const Parameter& p, Term term) const {
    return (term == Term::kIndexer) == (p.owner == Owner::kIndexer);
  }

  // Relative to the tensor's largest gradient, for a few elements of every tensor.
  void check(Term term) {
    const auto grads = gradients(term);
    base::SplitMix64 random(1);
    for (size_t i = 0; i < values_.size(); ++i) {
      const Parameter& p = tiny_.parameters[i];
      if (!belongs(p, term) || p.update == Update::kBalance) continue;
      const double scale = grads[i].abs().max().item<double>();
      EXPECT_GT(scale, 0) << p.name;
      for (int k = 0; k < 2; ++k) {
        // The largest gradient first, then any.
        const int64_t at = k == 0 ? grads[i].abs().argmax().item<int64_t>()
                                  : static_cast<int64_t>(random.below(values_[i].numel()));
        const double expected = difference(i, at, term, 1e-5);
        const double got = grads[i].contiguous().data_ptr<double>()[at];
        EXPECT_LT(std::abs(got - expected), 1e-6 * scale + 1e-10) << p.name << " element " << at;
      }
    }
  }

  TinyModel tiny_;
  std::vector<Tensor> values_;
  Batch batch_;
  std::optional<Layout> layout_;
  ForwardOptions options_;
};

// G1: selections and experts held fixed.
TEST_F(Gradients, MatchDifferencesWithChoicesHeld) {
  const Choices choices = run().choices;
  options_.forced = &choices;
  check(Term::kModel);
}

// The indexer's loss on the selection, and on all visible entries with every teacher.
TEST_F(Gradients, OfTheIndexerMatchDifferences) {
  const Choices choices = run().choices;
  options_.forced = &choices;
  check(Term::kIndexer);
  options_.index.support = IndexSupport::kAllVisible;
  options_.index.scope = TeacherScope::kOwn;
  options_.index.row_weight = RowWeight::kNone;
  check(Term::kIndexer);
}

// G2: nothing held; a step of 1e-5 changes no choice of this seed.
TEST_F(Gradients, MatchDifferencesWithChoicesLive) { check(Term::kModel); }

// G4: the indexer's loss moves the indexer alone, and no other loss moves it.
TEST_F(Gradients, OfTheIndexerStayInTheIndexer) {
  const auto of_indexer = gradients(Term::kIndexer);
  const auto of_model = gradients(Term::kModel);
  for (size_t i = 0; i < values_.size(); ++i) {
    const Parameter& p = tiny_.parameters[i];
    const Tensor& zero = p.owner == Owner::kIndexer ? of_model[i] : of_indexer[i];
    EXPECT_EQ(zero.abs().max().item<double>(), 0) << p.name;
  }
}

// G4: a document's loss does not reach another's tokens, through window, entries, indexer, n-grams.
TEST_F(Gradients, StayInTheDocument) {
  Batch batch = batch_;
  for (int32_t i = 0; i < batch.documents[1].end; ++i) {
    if (i < batch.documents[1].begin) batch.labels[static_cast<size_t>(i)] = -1;
  }
  for (int32_t& token : batch.tokens) token = 0;
  for (int32_t i = batch.documents[1].begin; i < batch.documents[1].end; ++i) {
    batch.tokens[static_cast<size_t>(i)] = 1;
  }
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const auto at = static_cast<int32_t>(i);
    const bool inside = at >= batch.documents[1].begin && at + 1 < batch.documents[1].end;
    batch.labels[i] = inside ? 3 : -1;
  }
  layout_.emplace(make_layout(tiny_.tables(at::kDouble), batch));
  options_.balance_weight = 0;
  const ForwardResult result = run();
  const auto grad = torch::autograd::grad({result.cross_entropy + result.indexer * 0}, {values_[0]},
                                          {}, c10::nullopt, false, true)[0];
  EXPECT_EQ(grad[0].abs().max().item<double>(), 0);
  EXPECT_GT(grad[1].abs().max().item<double>(), 0);
}

// Document `number` of a batch by itself.
Batch alone(const Batch& batch, size_t number) {
  Document d = batch.documents[number];
  const int32_t begin = d.begin;
  Batch out;
  out.tokens.assign(batch.tokens.begin() + d.begin, batch.tokens.begin() + d.end);
  out.labels.assign(batch.labels.begin() + d.begin, batch.labels.begin() + d.end);
  for (Segment& s : d.segments) {
    s = {s.begin - begin, s.end - begin, s.loss_from - begin};
  }
  d.begin = 0;
  d.end -= begin;
  out.documents = {d};
  return out;
}

// D1: what documents of one row teach is what each teaches alone, added; so are the figures.
TEST_F(Gradients, OfPackedDocumentsAdd) {
  const Batch packed = [&] {
    Batch out = random_batch(tiny_.config, {23, 1, 17, 6}, 4);
    out.documents[0].segments = {{0, 15, 0}, {10, 23, 15}};
    out.documents[2].segments = {{24, 30, 24}, {30, 41, 30}};
    return out;
  }();
  const auto gradients_of = [&](const Batch& batch, ForwardResult& result) {
    layout_.emplace(make_layout(tiny_.tables(at::kDouble), batch));
    result = run();
    auto grads = torch::autograd::grad({result.loss()}, values_, {}, c10::nullopt, false, true);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) grads[i] = at::zeros_like(values_[i]);
    }
    return grads;
  };
  ForwardResult whole;
  const auto together = gradients_of(packed, whole);
  std::vector<Tensor> sum;
  double loss = 0;
  IndexStatistics index;
  std::vector<std::vector<int64_t>> loads;
  for (size_t d = 0; d < packed.documents.size(); ++d) {
    ForwardResult part;
    const auto grads = gradients_of(alone(packed, d), part);
    loss += part.loss().item<double>();
    index.add(part.index);
    loads.resize(part.loads.size(), std::vector<int64_t>(tiny_.config.n_routed_experts));
    for (size_t l = 0; l < loads.size(); ++l) {
      for (size_t e = 0; e < loads[l].size(); ++e) loads[l][e] += part.loads[l][e];
    }
    for (size_t i = 0; i < grads.size(); ++i) {
      if (d == 0) sum.push_back(at::zeros_like(grads[i]));
      sum[i] = sum[i] + grads[i];
    }
  }
  EXPECT_NEAR(whole.loss().item<double>(), loss, 1e-11 * loss);
  EXPECT_EQ(whole.loads, loads);
  EXPECT_EQ(whole.index.rows, index.rows);
  EXPECT_EQ(whole.index.bound, index.bound);
  EXPECT_NEAR(whole.index.mass, index.mass, 1e-10);
  EXPECT_NEAR(whole.index.kl, index.kl, 1e-10);
  for (size_t i = 0; i < sum.size(); ++i) {
    const double scale = sum[i].abs().max().item<double>();
    EXPECT_LE((together[i] - sum[i]).abs().max().item<double>(), 1e-11 * scale)
        << tiny_.parameters[i].name;
  }
}

// --- contracts

class Contracts : public Gradients {
 protected:
  Tensor logits(const Batch& batch) {
    const at::NoGradGuard no_grad;
    const Layout layout = make_layout(tiny_.tables(at::kDouble), batch);
    return Graph(tiny_.config, tiny_.plan)
        .logits(bind_tensors(tiny_.config, tiny_.plan, values_), layout, options_)
        .logits;
  }
};

// A1: with room for every entry a selection is no selection.
TEST_F(Contracts, EnoughSlotsAreDense) {
  options_.topk = 1000;
  options_.candidates = false;
  const Tensor dense = logits(batch_);
  options_.topk = 23;  // as many as any token sees
  EXPECT_TRUE(at::equal(logits(batch_), dense));
  options_.topk = 2;
  EXPECT_FALSE(at::allclose(logits(batch_), dense, 1e-5, 1e-5));
}

// A3: candidates that take in every block change nothing; fewer do.
TEST_F(Contracts, AllBlocksAreNoHierarchy) {
  options_.candidates = false;
  const Tensor plain = logits(batch_);
  options_.candidates = true;
  EXPECT_FALSE(at::equal(logits(batch_), plain));  // 6 of 23 entries are searched
  tiny_.config.candidate_topk_blocks = 12;         // 23 entries in blocks of 2
  EXPECT_TRUE(at::equal(logits(batch_), plain));
}

// Cutting at 0 is not cutting.
TEST_F(Contracts, OneSegmentIsThePlainPass) {
  Batch plain = batch_;
  plain.documents[0].segments.clear();
  Batch cut = plain;
  cut.documents[0].segments = {{0, 23, 0}};
  EXPECT_TRUE(at::equal(logits(plain), logits(cut)));
}
}  // namespace
}  // namespace thimble::train::internal
