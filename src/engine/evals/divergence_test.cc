// Aim: the figures of the evaluations mean what their names say. Method: logits small enough to
// work out by hand.
#include "engine/evals/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace thimble::engine {
namespace {

using Row = std::vector<float>;

TEST(Divergence, SameBitsAreNothingApart) {
  const RowDivergence row = compare_rows(Row{0.1F, -3, 7.25F}, Row{0.1F, -3, 7.25F});
  EXPECT_EQ(row.max_abs, 0);
  EXPECT_EQ(row.mean_abs, 0);
  EXPECT_EQ(row.kl, 0);
  EXPECT_TRUE(row.same_top);
  EXPECT_TRUE(row.same_bits);
}

// softmax(0, ln 3) = (1/4, 3/4) against softmax(0, 0) = (1/2, 1/2).
TEST(Divergence, KnownDistributions) {
  const float ln3 = std::log(3.0F);
  const RowDivergence row = compare_rows(Row{0, ln3}, Row{0, 0});
  EXPECT_FLOAT_EQ(static_cast<float>(row.max_abs), ln3);
  EXPECT_FLOAT_EQ(static_cast<float>(row.mean_abs), ln3 / 2);
  EXPECT_NEAR(row.kl, 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-7);
  EXPECT_FALSE(row.same_top);  // of equals the first
  EXPECT_FALSE(row.same_bits);
  // KL is not symmetric: who is cold matters.
  EXPECT_NEAR(compare_rows(Row{0, 0}, Row{0, ln3}).kl, 0.5 * std::log(2) + 0.5 * std::log(2.0 / 3),
              1e-7);
}

// A constant added to all logits moves them and changes no probability.
TEST(Divergence, AShiftMovesLogitsAlone) {
  const RowDivergence row = compare_rows(Row{1, 2, 3}, Row{5, 6, 7});
  EXPECT_EQ(row.max_abs, 4);
  EXPECT_EQ(row.mean_abs, 4);
  EXPECT_NEAR(row.kl, 0, 1e-12);
  EXPECT_GE(row.kl, 0);
  EXPECT_TRUE(row.same_top);
  EXPECT_FALSE(row.same_bits);
}

TEST(Divergence, LargeLogitsDoNotOverflow) {
  const RowDivergence row = compare_rows(Row{30'000, 0}, Row{29'999, 0});
  EXPECT_EQ(row.max_abs, 1);
  EXPECT_NEAR(row.kl, 0, 1e-12);
}

TEST(Divergence, ASignOfZeroIsADifferenceOfBits) {
  EXPECT_FALSE(compare_rows(Row{0.0F, 1}, Row{-0.0F, 1}).same_bits);
}

TEST(Divergence, NotANumberIsTheWorst) {
  DivergenceSum sum;
  sum.add(compare_rows(Row{0, 1}, Row{std::numeric_limits<float>::quiet_NaN(), 1}));
  EXPECT_EQ(sum.max_abs(), std::numeric_limits<double>::infinity());
  EXPECT_FALSE(sum.bit_equal());
}

TEST(Divergence, SumsOverPositions) {
  DivergenceSum sum;
  EXPECT_EQ(sum.mean_kl(), 0);
  EXPECT_EQ(sum.top1_agreement(), 1);
  sum.add({.max_abs = 2, .mean_abs = 1, .kl = 0.5, .same_top = false, .same_bits = false});
  sum.add({.max_abs = 1, .mean_abs = 0.5, .kl = 0.25, .same_top = true, .same_bits = false});
  sum.add({});
  sum.add({});
  EXPECT_EQ(sum.rows(), 4u);
  EXPECT_EQ(sum.max_abs(), 2);
  EXPECT_EQ(sum.max_kl(), 0.5);
  EXPECT_EQ(sum.mean_abs(), 1.5 / 4);
  EXPECT_EQ(sum.mean_kl(), 0.75 / 4);
  EXPECT_EQ(sum.top1_agreement(), 0.75);
  EXPECT_FALSE(sum.bit_equal());
}

}  // namespace
}  // namespace thimble::engine
