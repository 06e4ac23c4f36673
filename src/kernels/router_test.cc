// Aim: routing of backbone spec 8: the bias selects only, weights are unbiased and normalised, ties
// and NaN have an order. Method: a full sort in double on random logits; hand-made ties; every
// table.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/internal/test_support.h"

namespace thimble::kernels {
namespace {

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights, scores;
};

Routed run(const std::vector<float>& logits, const std::vector<float>& bias, uint64_t rows,
           uint32_t topk, float scale = 1.5f) {
  const uint64_t experts = bias.size();
  Routed out{std::vector<int32_t>(rows * topk), std::vector<float>(rows * topk),
             std::vector<float>(rows * experts)};
  route({logits.data(), rows, experts}, bias.data(), scale, {out.ids.data(), rows, topk},
        {out.weights.data(), rows, topk}, {out.scores.data(), rows, experts});
  return out;
}

TEST(Route, EqualsASortInDouble) {
  base::SplitMix64 random(1);
  for (uint32_t experts : {2, 8, 17, 384}) {
    const uint64_t rows = 20;
    const uint32_t topk = std::min(experts, 6u);
    const std::vector<float> logits = test::normal_floats(random, rows * experts, 3);
    const std::vector<float> bias = test::normal_floats(random, experts);
    test::with_each_table([&] {
      const Routed routed = run(logits, bias, rows, topk);
      for (uint64_t i = 0; i < rows; ++i) {
        std::vector<double> score;
        for (uint32_t e = 0; e < experts; ++e) {
          score.push_back(std::sqrt(std::log1p(std::exp(double{logits[i * experts + e]}))));
        }
        std::vector<int32_t> order(experts);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
          return score[a] + bias[a] > score[b] + bias[b];
        });
        double total = 0;
        for (uint32_t k = 0; k < topk; ++k) total += score[order[k]];
        for (uint32_t k = 0; k < topk; ++k) {
          ASSERT_EQ(routed.ids[i * topk + k], order[k]);
          const double exact = score[order[k]] / total * 1.5;
          EXPECT_NEAR(routed.weights[i * topk + k], exact, (topk + 10) * 0x1p-24 * exact);
        }
      }
    });
  }
}

TEST(Route, TiesGoToTheLowerExpert) {
  const Routed routed = run(std::vector<float>(8, 0.5f), std::vector<float>(8, 0.0f), 1, 3);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_FLOAT_EQ(routed.weights[0], 0.5f);
}

TEST(Route, BiasSelectsButDoesNotWeigh) {
  const Routed routed = run({0, 1, 2, 3}, {100, 0, 50, 0}, 1, 2, 1.0f);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{0, 2}));
  EXPECT_FLOAT_EQ(routed.weights[0] / routed.weights[1], routed.scores[0] / routed.scores[2]);
}

// Every expert better than all before it: nothing is written past the chosen ones.
TEST(Route, WritesItsOwnRowsOnly) {
  const std::vector<float> logits = {0, 1, 2, 3, 4, 5};
  const std::vector<float> bias(6, 0.0f);
  std::vector<int32_t> ids(3, -7);
  std::vector<float> weights(3, -7.0f);
  route({logits.data(), 1, 6}, bias.data(), 1.0f, {ids.data(), 1, 2}, {weights.data(), 1, 2}, {});
  EXPECT_EQ(ids, (std::vector<int32_t>{5, 4, -7}));
  EXPECT_EQ(weights[2], -7.0f);
}

TEST(Route, NanComesLast) {
  const Routed routed = run({test::kNan, 1, test::kNan, 0}, {0, 0, 0, 0}, 1, 3);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 3, 0}));
}

TEST(Route, AllScoresZeroDoNotDivideByZero) {
  const Routed routed = run({-test::kInf, -test::kInf}, {0, 0}, 1, 2);
  EXPECT_EQ(routed.weights, (std::vector<float>{0, 0}));
}

TEST(Route, SelectsAllWhenAllAreActive) {
  const Routed routed = run({1, 3, 2}, {0, 0, 0}, 1, 3);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 2, 0}));
}

}  // namespace
}  // namespace thimble::kernels
