#include "engine/evals/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace thimble::engine {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

double worst_of(double worst, double value) {
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : std::max(worst, value);
}

}  // namespace

int32_t top_token(std::span<const float> logits) {
  CHECK(!logits.empty());
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

RowDivergence compare_rows(std::span<const float> cold, std::span<const float> route) {
  CHECK_EQ(cold.size(), route.size());
  RowDivergence row;
  row.same_top = top_token(cold) == top_token(route);
  row.same_bits = std::memcmp(cold.data(), route.data(), cold.size_bytes()) == 0;
  if (row.same_bits) return row;
  const double cold_norm = log_sum_exp(cold);
  const double route_norm = log_sum_exp(route);
  double sum = 0;
  for (size_t i = 0; i < cold.size(); ++i) {
    const double apart = std::abs(static_cast<double>(cold[i]) - static_cast<double>(route[i]));
    row.max_abs = worst_of(row.max_abs, apart);
    sum += apart;
    const double log_cold = cold[i] - cold_norm;
    row.kl += std::exp(log_cold) * (log_cold - (route[i] - route_norm));
  }
  row.mean_abs = sum / static_cast<double>(cold.size());
  row.kl = std::max(row.kl, 0.0);  // of rows that hardly differ, rounding may leave less
  return row;
}

void DivergenceSum::add(const RowDivergence& row) {
  ++rows_;
  same_top_ += row.same_top ? 1 : 0;
  different_ += row.same_bits ? 0 : 1;
  max_abs_ = worst_of(max_abs_, row.max_abs);
  max_kl_ = worst_of(max_kl_, row.kl);
  abs_sum_ += row.mean_abs;
  kl_sum_ += row.kl;
}

}  // namespace thimble::engine
