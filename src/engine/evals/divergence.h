// How far two runs of one text lie apart, by the logits of the same positions.
//
// Pure functions of numbers, no model: KL is of softmax(cold) from softmax(route), in nats, in
// double. Where both runs gave the same bits every figure is exactly 0 and every top token agrees.
#pragma once

#include <cstdint>
#include <span>

namespace thimble::engine {

// One position.
struct RowDivergence {
  double max_abs = 0;
  double mean_abs = 0;
  double kl = 0;  // KL(cold || route), at least 0
  bool same_top = true;
  bool same_bits = true;
};

// `cold`, `route`: [vocab_size], not empty.
RowDivergence compare_rows(std::span<const float> cold, std::span<const float> route);

// Index of the largest logit, of equals the first: what greedy decoding takes.
int32_t top_token(std::span<const float> logits);

// Many positions.
class DivergenceSum {
 public:
  void add(const RowDivergence& row);

  uint64_t rows() const { return rows_; }
  double max_abs() const { return max_abs_; }
  double max_kl() const { return max_kl_; }
  bool bit_equal() const { return different_ == 0; }
  // Means over the positions; 0 of none, agreement 1.
  double mean_abs() const { return mean(abs_sum_); }
  double mean_kl() const { return mean(kl_sum_); }
  double top1_agreement() const { return rows_ == 0 ? 1 : mean(static_cast<double>(same_top_)); }

 private:
  double mean(double sum) const { return rows_ == 0 ? 0 : sum / static_cast<double>(rows_); }

  uint64_t rows_ = 0;
  uint64_t same_top_ = 0;
  uint64_t different_ = 0;  // positions whose bits differ
  double max_abs_ = 0;
  double max_kl_ = 0;
  double abs_sum_ = 0;
  double kl_sum_ = 0;
};

}  // namespace thimble::engine
