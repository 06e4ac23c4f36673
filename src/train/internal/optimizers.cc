#include "train/internal/optimizers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/internal/products.h"

namespace thimble::train::internal {
namespace {

// One matrix of a step: W <- W (1 - rate decay) - rate gamma sqrt(max(n, m)) X.
void muon_block(const MuonRule& rule, double rate, const Tensor& update, Tensor weight) {
  const auto longer = static_cast<double>(std::max(update.size(0), update.size(1)));
  weight.mul_(1 - rate * rule.weight_decay);
  weight.add_(orthogonal(update, rule), -rate * rule.gamma * std::sqrt(longer));
}

}  // namespace

Tensor orthogonal(const Tensor& x, const MuonRule& rule) {
  const bool tall = x.size(0) > x.size(1);
  Tensor y = tall ? x.t().contiguous() : x.contiguous();
  const double norm = y.norm().item<double>();
  if (!(norm > 0)) return at::zeros_like(x);
  y = for_product(y / norm, rule.products);
  for (int64_t i = 0; i < rule.steep + rule.exact; ++i) {
    const bool steep = i < rule.steep;
    const double a = steep ? 3.4445 : 2.0;
    const double b = steep ? -4.7750 : -1.5;
    const double c = steep ? 2.0315 : 0.5;
    const Tensor square = at::mm(y, y.t());
    const Tensor polynomial = at::addmm(square, square, square, b, c);
    y = at::addmm(y, polynomial, y, a, 1);
  }
  y = y.to(x.scalar_type());
  return tall ? y.t().contiguous() : y;
}

void muon_step(const MuonRule& rule, double rate, int64_t blocks, const Tensor& gradient,
               Tensor& momentum, Tensor& weight) {
  momentum.mul_(rule.momentum).add_(gradient);
  const Tensor update = momentum * rule.momentum + gradient;  // Nesterov
  if (weight.dim() == 3) {
    for (int64_t e = 0; e < weight.size(0); ++e) muon_block(rule, rate, update[e], weight[e]);
    return;
  }
  CHECK_EQ(weight.size(0) % blocks, 0);
  const int64_t rows = weight.size(0) / blocks;
  for (int64_t b = 0; b < blocks; ++b) {
    muon_block(rule, rate, update.narrow(0, b * rows, rows), weight.narrow(0, b * rows, rows));
  }
}

Tensor balanced(const Tensor& x, const SinkhornRule& rule) {
  // Scales only: the matrix is written once, at the end (training spec 12.2). Norms in double.
  const int64_t rows = x.size(0);
  const int64_t cols = x.size(1);
  const auto* values = x.data_ptr<float>();
  std::vector<double> row_norm(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const double v = static_cast<double>(values[r * cols + c]);
      sum += v * v;
    }
    row_norm[static_cast<size_t>(r)] = std::sqrt(sum);
  }
  const double mean =
      std::accumulate(row_norm.begin(), row_norm.end(), 0.0) / static_cast<double>(rows);
  std::vector<int64_t> active;
  for (int64_t r = 0; r < rows; ++r) {
    if (row_norm[static_cast<size_t>(r)] > rule.quiet * mean) active.push_back(r);
  }
  Tensor out = at::zeros_like(x);
  if (active.empty()) return out;
  // Active rows, squared and scaled to norm one, so that nothing underflows.
  const auto count = static_cast<int64_t>(active.size());
  const Tensor index = at::from_blob(active.data(), {count}, at::kLong);
  const Tensor picked = x.index_select(0, index);
  const Tensor norms = picked.to(at::kDouble).norm(2, 1, true);
  const Tensor unit = (picked / norms.to(at::kFloat)).contiguous();
  const Tensor square = unit.square();
  Tensor row_scale = at::ones({count, 1}, at::kFloat);  // squares of the scales
  Tensor col_scale = at::ones({cols, 1}, at::kFloat);
  for (int64_t k = 1; k <= rule.iterations; ++k) {
    if (k % 2 == 1) {
      row_scale = at::mm(square, col_scale).clamp_min(1e-30f).reciprocal();
    } else {
      col_scale = at::mm(square.t(), row_scale).clamp_min(1e-30f).reciprocal();
    }
  }
  out.index_copy_(0, index, unit * row_scale.sqrt() * col_scale.sqrt().t());
  return out;
}

void sinkhorn_step(const SinkhornRule& rule, double rate, const Tensor& gradient, Tensor& momentum,
                   Tensor& weight) {
  momentum.mul_(rule.momentum).add_(gradient, 1 - rule.momentum);
  Tensor update = momentum * rule.momentum;
  update.add_(gradient, 1 - rule.momentum);
  const double size = rule.gamma * std::sqrt(static_cast<double>(weight.size(1)));
  weight.add_(balanced(update, rule), -rate * size);
}

void adam_step(const AdamRule& rule, double rate, int64_t step, const Tensor& gradient,
               Tensor& first, Tensor& second, Tensor& weight) {
  first.mul_(rule.beta1).add_(gradient, 1 - rule.beta1);
  second.mul_(rule.beta2).addcmul_(gradient, gradient, 1 - rule.beta2);
  const double correct1 = 1 - std::pow(rule.beta1, static_cast<double>(step));
  const double correct2 = 1 - std::pow(rule.beta2, static_cast<double>(step));
  weight.mul_(1 - rate * rule.weight_decay);
  weight.addcdiv_(first, second.div(correct2).sqrt_().add_(rule.epsilon), -rate / correct1);
}

void balance_step(double speed, const std::vector<int64_t>& load, Tensor& bias) {
  const auto total = std::accumulate(load.begin(), load.end(), int64_t{0});
  if (total == 0) return;
  const double mean = static_cast<double>(total) / static_cast<double>(load.size());
  auto* b = bias.data_ptr<float>();
  double sum = 0;
  for (size_t i = 0; i < load.size(); ++i) {
    const double gap = mean - static_cast<double>(load[i]);
    b[i] += static_cast<float>(gap > 0 ? speed : gap < 0 ? -speed : 0);
    sum += static_cast<double>(b[i]);
  }
  const auto centre = static_cast<float>(sum / static_cast<double>(load.size()));
  for (size_t i = 0; i < load.size(); ++i) b[i] -= centre;
}

}  // namespace thimble::train::internal
