// Aim: the update rules are those of training spec 12. Method: O1: oracles with plain loops and
// known properties (orthogonality, update size, scale invariance, row and column norms), the split
// by head, and the partition of parameters into groups.
#include <gtest/gtest.h>

#include <algorithm>
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

// A matrix in double, for oracles that share nothing with libtorch.
struct Matrix {
  size_t rows = 0;
  size_t cols = 0;
  std::vector<double> values;

  Matrix(size_t r, size_t c) : rows(r), cols(c), values(r * c) {}
  explicit Matrix(const Tensor& t)
      : Matrix(static_cast<size_t>(t.size(0)), static_cast<size_t>(t.size(1))) {
    const Tensor plain = t.contiguous();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(plain.data_ptr<float>()[i]);
    }
  }
  double& at(size_t r, size_t c) { return values[r * cols + c]; }
  double at(size_t r, size_t c) const { return values[r * cols + c]; }
  Matrix transposed() const {
    Matrix out(cols, rows);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < cols; ++c) out.at(c, r) = at(r, c);
    }
    return out;
  }
  double norm() const {
    double sum = 0;
    for (const double v : values) sum += v * v;
    return std::sqrt(sum);
  }
  double row_norm(size_t r) const {
    double sum = 0;
    for (size_t c = 0; c < cols; ++c) sum += at(r, c) * at(r, c);
    return std::sqrt(sum);
  }
};

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.cols);
  for (size_t r = 0; r < a.rows; ++r) {
    for (size_t c = 0; c < b.cols; ++c) {
      for (size_t k = 0; k < a.cols; ++k) out.at(r, c) += a.at(r, k) * b.at(k, c);
    }
  }
  return out;
}

// X <- a X + (b A + c A A) X with A = X X^T, eight times steep and two times exact.
Matrix newton_schulz(Matrix x) {
  if (x.rows > x.cols) return newton_schulz(x.transposed()).transposed();
  const double norm = x.norm();
  for (double& v : x.values) v /= norm;
  for (int i = 0; i < 10; ++i) {
    const double a = i < 8 ? 3.4445 : 2;
    const double b = i < 8 ? -4.7750 : -1.5;
    const double c = i < 8 ? 2.0315 : 0.5;
    const Matrix square = times(x, x.transposed());
    Matrix polynomial = times(square, square);
    for (size_t k = 0; k < polynomial.values.size(); ++k) {
      polynomial.values[k] = c * polynomial.values[k] + b * square.values[k];
    }
    const Matrix turned = times(polynomial, x);
    for (size_t k = 0; k < x.values.size(); ++k) x.values[k] = a * x.values[k] + turned.values[k];
  }
  return x;
}

// One block of three Muon steps, alone: decay 0.1, momentum 0.95, size 0.18 sqrt(longer side).
Matrix slow_muon(Matrix weight, const std::vector<Tensor>& gradients, double rate) {
  Matrix m(weight.rows, weight.cols);
  for (const Tensor& gradient : gradients) {
    const Matrix g(gradient);
    Matrix nesterov = g;
    for (size_t k = 0; k < m.values.size(); ++k) {
      m.values[k] = 0.95 * m.values[k] + g.values[k];
      nesterov.values[k] += 0.95 * m.values[k];
    }
    const Matrix x = newton_schulz(nesterov);
    const double size = 0.18 * std::sqrt(static_cast<double>(std::max(m.rows, m.cols)));
    for (size_t k = 0; k < m.values.size(); ++k) {
      weight.values[k] = weight.values[k] * (1 - rate * 0.1) - rate * size * x.values[k];
    }
  }
  return weight;
}

void expect_near(const Tensor& got, const Matrix& wanted, double bound, const char* what) {
  const Matrix values(got);
  ASSERT_EQ(values.values.size(), wanted.values.size());
  double worst = 0;
  for (size_t k = 0; k < wanted.values.size(); ++k) {
    worst = std::max(worst, std::abs(values.values[k] - wanted.values[k]));
  }
  EXPECT_LT(worst, bound) << what;
}

// Blocks wide and tall, one of them with gradients a hundred times larger, and a stack.
TEST(Muon, EqualsTheSlowOne) {
  for (const int64_t rows : {24, 96}) {
    constexpr int64_t kBlocks = 3;
    Tensor weight = noise({rows, 20}, rows);
    Tensor stack = weight.clone().view({kBlocks, rows / kBlocks, 20});
    Tensor momentum = at::zeros_like(weight);
    Tensor stack_momentum = at::zeros_like(stack);
    const Tensor begin = weight.clone();
    std::vector<Tensor> gradients;
    for (int64_t step = 0; step < 3; ++step) {
      gradients.push_back(noise({rows, 20}, 10 + step));
      gradients.back().narrow(0, 0, rows / kBlocks).mul_(100);
      muon_step({}, 0.1, kBlocks, gradients.back(), momentum, weight);
      muon_step({}, 0.1, 1, gradients.back().view(stack.sizes()), stack_momentum, stack);
    }
    for (int64_t b = 0; b < kBlocks; ++b) {
      const auto part = [&](const Tensor& t) {
        return t.narrow(0, b * rows / kBlocks, rows / kBlocks);
      };
      std::vector<Tensor> own;
      for (const Tensor& g : gradients) own.push_back(part(g));
      const Matrix wanted = slow_muon(Matrix(part(begin)), own, 0.1);
      expect_near(part(weight), wanted, 1e-4, "block");
      expect_near(stack[b], wanted, 1e-4, "of a stack");
    }
  }
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

// The step as the specification writes it, in plain loops: Nesterov on a moving average, quiet rows
// left out, eleven scalings in turn, 0.18 sqrt(columns), no decay.
void slow_sinkhorn_step(const Matrix& g, double rate, Matrix& m, Matrix& weight) {
  Matrix u = g;
  double mean = 0;
  for (size_t k = 0; k < g.values.size(); ++k) {
    m.values[k] = 0.95 * m.values[k] + (1 - 0.95) * g.values[k];
    u.values[k] = 0.95 * m.values[k] + (1 - 0.95) * g.values[k];
  }
  for (size_t r = 0; r < u.rows; ++r) mean += u.row_norm(r) / static_cast<double>(u.rows);
  const auto scale_row = [](Matrix& x, size_t r, double by) {
    for (size_t c = 0; c < x.cols; ++c) x.at(r, c) *= by;
  };
  for (size_t r = 0; r < u.rows; ++r) {
    if (u.row_norm(r) <= 1e-3 * mean) scale_row(u, r, 0);
  }
  for (int k = 1; k <= 11; ++k) {
    if (k % 2 == 0) u = u.transposed();
    for (size_t r = 0; r < u.rows; ++r) scale_row(u, r, 1 / (u.row_norm(r) + 1e-20));
    if (k % 2 == 0) u = u.transposed();
  }
  const double size = rate * 0.18 * std::sqrt(static_cast<double>(weight.cols));
  for (size_t k = 0; k < u.values.size(); ++k) weight.values[k] -= size * u.values[k];
}

TEST(Sinkhorn, StepsAsTheSlowOne) {
  Tensor weight = noise({30, 12}, 1);
  Tensor momentum = at::zeros_like(weight);
  Matrix slow_weight(weight);
  Matrix slow_momentum(momentum);
  for (int64_t step = 0; step < 3; ++step) {
    Tensor gradient = noise({30, 12}, 10 + step) * noise({30, 1}, 20).exp();
    gradient[4].zero_();  // a row that no token hits
    // Hit once, then carried by its momentum alone.
    if (step > 0) gradient[5].zero_();
    sinkhorn_step({}, 0.05, gradient, momentum, weight);
    slow_sinkhorn_step(Matrix(gradient), 0.05, slow_momentum, slow_weight);
    expect_near(weight, slow_weight, 1e-5, "weight");
    expect_near(momentum, slow_momentum, 1e-6, "momentum");
  }
  EXPECT_TRUE(at::equal(weight[4], noise({30, 12}, 1)[4]));
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

// Each head, indexer head, output group and stream of Engram is made orthogonal by itself, and
// nothing else is split.
TEST(Groups, AreSplitByHeads) {
  const TinyModel tiny(xs_config());
  std::map<std::string, std::pair<int64_t, int>> splits;  // suffix to blocks and tensors
  for (const Parameter& p : tiny.parameters) {
    if (p.blocks == 1) continue;
    EXPECT_EQ(p.update, Update::kMuon) << p.name;
    const std::string name = p.name.substr(p.name.find('.', p.name.find('.') + 1) + 1);
    const auto [at, fresh] = splits.try_emplace(name, p.blocks, 0);
    EXPECT_EQ(at->second.first, p.blocks) << p.name;
    ++at->second.second;
  }
  const std::map<std::string, std::pair<int64_t, int>> wanted = {
      {"attn.wq_b.weight", {tiny.config.num_attention_heads, 7}},
      {"attn.indexer.wq_b.weight", {tiny.config.index_n_heads, 3}},
      {"attn.wo_a.weight", {tiny.config.o_groups, 7}},
      {"engram.wkv.weight", {tiny.config.hc_mult + 1, 1}}};
  EXPECT_EQ(splits, wanted);
}

}  // namespace
}  // namespace thimble::train::internal
