// Aim: the update rules are those of training spec 12. Method: O1: oracles with plain loops and
// known properties (orthogonality, update size, scale invariance, row and column norms), the split
// by head, and the partition of parameters into groups.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "train/internal/optimizers.h"
#include "train/internal/testing.h"

namespace thimble::train::internal {
namespace {

Tensor noise(std::vector<int64_t> shape, int64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return at::randn(shape, generator);
}

double rms(const Tensor& x) { return x.square().mean().sqrt().item<double>(); }

TEST(Muon, MakesMatricesOrthogonal) {
  for (const auto& [n, m] : {std::pair{24, 80}, std::pair{80, 24}, std::pair{48, 48}}) {
    const Tensor x = noise({n, m}, n);
    const Tensor y = orthogonal(x, MuonRule{});
    const Tensor gram = n <= m ? at::mm(y, y.t()) : at::mm(y.t(), y);
    EXPECT_TRUE(at::allclose(gram, at::eye(std::min(n, m)), 0, 4e-3)) << n << " x " << m;
    // Nearest: the product with x is symmetric and positive.
    const Tensor product = n <= m ? at::mm(y, x.t()) : at::mm(y.t(), x);
    EXPECT_TRUE(at::allclose(product, product.t(), 1e-2, 0.1));
    EXPECT_GT(product.diagonal().min().item<double>(), 0);
  }
}

// Three steps of the rule written out, on the two halves of a matrix.
TEST(Muon, StepsBlockByBlock) {
  MuonRule rule;
  Tensor weight = noise({16, 20}, 1);
  Tensor momentum = at::zeros_like(weight);
  Tensor expected = weight.clone();
  Tensor m = at::zeros_like(weight);
  for (int64_t step = 0; step < 3; ++step) {
    Tensor gradient = noise({16, 20}, 10 + step);
    gradient.narrow(0, 0, 8).mul_(100);  // a head with large gradients does not drown the other
    muon_step(rule, 0.01, 2, gradient, momentum, weight);
    m = m * 0.95 + gradient;
    const Tensor nesterov = m * 0.95 + gradient;
    for (int64_t half = 0; half < 2; ++half) {
      const Tensor update = orthogonal(nesterov.narrow(0, 8 * half, 8), rule);
      EXPECT_NEAR(rms(update) * std::sqrt(20.0), 1, 5e-3);
      Tensor part = expected.narrow(0, 8 * half, 8);
      part.copy_(part * (1 - 0.01 * 0.1) - update * (0.01 * 0.18 * std::sqrt(20.0)));
    }
  }
  EXPECT_TRUE(at::allclose(weight, expected, 1e-5, 1e-6));
}

TEST(Muon, IgnoresTheScaleOfGradients) {
  Tensor a = noise({12, 30}, 1);
  Tensor b = a.clone();
  Tensor ma = at::zeros_like(a);
  Tensor mb = at::zeros_like(a);
  const Tensor g = noise({12, 30}, 2);
  muon_step({}, 0.1, 1, g, ma, a);
  muon_step({}, 0.1, 1, g * 1024, mb, b);
  EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6));
}

// The rule as it is written: row and column norms in turn, on the matrix itself, in double.
Tensor slow_balanced(const Tensor& x, const SinkhornRule& rule) {
  Tensor u = x.to(at::kDouble);
  const Tensor norm = u.norm(2, 1, true);
  u = u * norm.gt(rule.quiet * norm.mean()).to(at::kDouble);
  for (int64_t k = 1; k <= rule.iterations; ++k) {
    u = u / (u.norm(2, k % 2 == 1 ? 1 : 0, true) + 1e-20);
  }
  return u.to(at::kFloat);
}

TEST(Sinkhorn, EqualsTheSlowOne) {
  Tensor x = noise({40, 12}, 3) * noise({40, 1}, 4).exp();
  x[7].zero_();
  x[9].mul_(1e-9);  // quiet: below the share of the mean
  const Tensor y = balanced(x, SinkhornRule{});
  EXPECT_TRUE(at::allclose(y, slow_balanced(x, SinkhornRule{}), 1e-5, 1e-6));
  EXPECT_EQ(y[7].abs().max().item<double>(), 0);
  EXPECT_EQ(y[9].abs().max().item<double>(), 0);
  EXPECT_NEAR(y[3].norm().item<double>(), 1, 1e-5);  // rows end exact
  EXPECT_TRUE(at::allclose(balanced(x * 1024, SinkhornRule{}), y, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(balanced(x * 1e-25, SinkhornRule{}), y, 1e-3, 1e-4));
}

TEST(Adam, EqualsTheFormula) {
  Tensor weight = noise({9}, 1);
  Tensor first = at::zeros_like(weight);
  Tensor second = at::zeros_like(weight);
  std::vector<double> w, m(9), v(9);
  for (int i = 0; i < 9; ++i) w.push_back(static_cast<double>(weight.data_ptr<float>()[i]));
  for (int64_t step = 1; step <= 3; ++step) {
    const Tensor g = noise({9}, 20 + step);
    adam_step({.weight_decay = 0.1}, 0.01, step, g, first, second, weight);
    for (size_t i = 0; i < 9; ++i) {
      const auto gi = static_cast<double>(g.data_ptr<float>()[i]);
      m[i] = 0.9 * m[i] + 0.1 * gi;
      v[i] = 0.95 * v[i] + 0.05 * gi * gi;
      const double mean = m[i] / (1 - std::pow(0.9, step));
      const double root = std::sqrt(v[i] / (1 - std::pow(0.95, step)));
      w[i] = w[i] * (1 - 0.01 * 0.1) - 0.01 * mean / root;
    }
  }
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(static_cast<double>(weight.data_ptr<float>()[i]), w[i], 1e-5);
  }
}

TEST(Balance, MovesTowardsTheMean) {
  Tensor bias = at::zeros({3});
  balance_step(0.01, {10, 2, 3}, bias);
  EXPECT_LT(bias[0].item<float>(), bias[1].item<float>());
  EXPECT_NEAR(bias.sum().item<float>(), 0, 1e-7);
  EXPECT_NEAR(bias[1].item<float>() - bias[0].item<float>(), 0.02, 1e-6);
}

// Every tensor of a checkpoint in one group, every group as large as it should be.
TEST(Groups, ArePartitioned) {
  const TinyModel tiny(xs_config());
  std::map<Update, int> count;
  std::map<std::string, int> names;
  for (const Parameter& p : tiny.parameters) {
    ++count[p.update];
    ++names[p.name];
    EXPECT_TRUE(p.update != Update::kMuon || p.shape.size() >= 2) << p.name;
    EXPECT_EQ(p.shape[0] % p.blocks, 0) << p.name;
  }
  for (const auto& [name, n] : names) EXPECT_EQ(n, 1) << name;
  EXPECT_EQ(count[Update::kSinkhorn], 3);        // embedding, head, one table
  EXPECT_EQ(count[Update::kBalance], 7);         // a layer each
  EXPECT_EQ(count[Update::kAdam], 7 * (1 + 4));  // sink; base and scale of two sublayers
  EXPECT_EQ(count[Update::kAdamDecayed], 1 + 7 * 4 + 2 * 2 + 2);  // norms; owners; Engram
  // wq_a, wq_b, wkv, wo_a, wo_b, two mHC, gate, three shared, three routed; compressors (3 at
  // ratio 2, 2 at ratio 1, wk among them), indexers, Engram.
  EXPECT_EQ(count[Update::kMuon], 7 * 14 + 5 + 3 * 2 + 1);
}

}  // namespace
}  // namespace thimble::train::internal
