// Aim: the vector functions (exp, softplus's root, SwiGLU, pair pooling) are accurate, defined for
// every input, and the same bits on every instruction set.
// Method: a dense sweep of all float32 bit patterns against double; named edges; odd lengths.
#include <gtest/gtest.h>

#include "kernels/internal/test_support.h"

namespace thimble::kernels {
namespace {

using test::kInf;
using test::kNan;
using test::same_bits;

double ulp_of(double value) {
  const float f = static_cast<float>(std::fabs(value));
  return static_cast<double>(std::nextafter(f, kInf)) - static_cast<double>(f);
}

// Every 499th bit pattern: all exponents, both signs, NaNs and infinities.
std::vector<float> float_sweep() {
  std::vector<float> out;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 499 * 8) {
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (double x = -104; x < 90; x += 0.00037) out.push_back(static_cast<float>(x));
  return out;
}

std::vector<float> run_exp(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  kernels().exp(x.data(), x.size(), y.data());
  return y;
}

TEST(Exp, BelowOneAndATenthUlp) {
  const std::vector<float> x = float_sweep();
  const std::vector<float> y = run_exp(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(double{x[i]});
    if (std::isnan(x[i])) {
      ASSERT_TRUE(std::isnan(y[i]));
    } else if (exact < 0x1p-126) {
      // Flushed; at the very edge the nearest float may be 2^-126 itself.
      ASSERT_TRUE(y[i] == 0.0f || exact > 0x1.fffffp-127) << x[i];
    } else if (exact > std::numeric_limits<float>::max()) {
      ASSERT_EQ(y[i], kInf) << x[i];
    } else {
      worst = std::max(worst, std::fabs(double{y[i]} - exact) / ulp_of(exact));
    }
  }
  EXPECT_LE(worst, 1.1);
}

TEST(Exp, Edges) {
  const std::vector<float> x = {0.0f,   -0.0f,      1.0f,       -kInf,  kInf,   kNan,
                                -1e30f, 88.722832f, 88.722840f, -87.3f, -88.0f, 1e-40f};
  const std::vector<float> y = run_exp(x);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_NEAR(y[2], 2.7182818f, 3e-7f);
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_EQ(y[4], kInf);
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_TRUE(std::isfinite(y[7]));
  EXPECT_EQ(y[8], kInf);
  EXPECT_GT(y[9], 0.0f);
  EXPECT_EQ(y[10], 0.0f);
  EXPECT_EQ(y[11], 1.0f);
}

TEST(Exp, SameBitsOnEveryTable) {
  const std::vector<float> x = float_sweep();
  const ScopedTable scalar(*runnable().back());
  const std::vector<float> expected = run_exp(x);
  test::with_each_table([&] { EXPECT_TRUE(same_bits(run_exp(x), expected)); });
}

// Spec 10.3, and the whole range: sqrt(softplus(z)) within 4 ulp, never an overflow of e^z.
TEST(RouterScores, KnownAnswersAndRange) {
  const std::vector<float> z = {-30, -2, -0.5f, 0, 1, 3, 19.9f, 25};
  const double known[] = {3.05902e-7, 0.35626958, 0.68853249, 0.83255461,
                          1.14597630, 1.74602043, 4.46094160, 5.0};
  std::vector<float> y(z.size());
  kernels().router_scores(z.data(), z.size(), y.data());
  for (size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(y[i], known[i], 2e-6 * known[i]) << z[i];
  std::vector<float> x;
  for (double v = -80; v < 300; v += 0.0071) x.push_back(static_cast<float>(v));
  x.push_back(1e30f);
  y.resize(x.size());
  kernels().router_scores(x.data(), x.size(), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::sqrt(x[i] > 30 ? double{x[i]} : std::log1p(std::exp(double{x[i]})));
    ASSERT_LE(std::fabs(y[i] - exact), 4 * ulp_of(exact)) << x[i];
  }
  x = {-1e30f, -kInf, kInf, kNan};
  kernels().router_scores(x.data(), x.size(), y.data());
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[2], kInf);
  EXPECT_TRUE(std::isnan(y[3]));
}

std::vector<float> special_mix(uint64_t seed, size_t n) {
  base::SplitMix64 random(seed);
  std::vector<float> x = test::awkward_floats(random, n);
  for (float& v : x) {
    if (random.below(40) == 0) v = kInf;
    if (random.below(40) == 0) v = -kInf;
    if (random.below(40) == 0) v = kNan;
  }
  return x;
}

TEST(ElementwiseEntries, SameBitsOnEveryTable) {
  for (size_t n : {0, 1, 2, 3, 5, 15, 16, 17, 33, 1000}) {
    const auto a = special_mix(n, n), b = special_mix(n + 1, n);
    const auto c = special_mix(n + 2, n), d = special_mix(n + 3, n);
    const auto w = test::bf16_bytes(a);
    auto all = [&] {
      const Table& table = kernels();
      std::vector<std::vector<float>> outs(6, std::vector<float>(n + 1, 7.0f));
      table.router_scores(a.data(), n, outs[0].data());
      table.swiglu_row(a.data(), b.data(), 1.5f, 0.7f, n, outs[1].data());
      table.pool_pair(a.data(), b.data(), c.data(), d.data(), n, outs[2].data());
      table.scale_row(b.data(), w.data(), 0.3f, n, outs[3].data());
      std::copy(a.begin(), a.end(), outs[4].begin());
      table.add_row(b.data(), n, outs[4].data());
      outs[5][n] = table.sum_of_squares(c.data(), n);
      return outs;
    };
    std::vector<std::vector<float>> expected;
    {
      const ScopedTable scalar(*runnable().back());
      expected = all();
    }
    test::with_each_table([&] {
      const auto outs = all();
      for (size_t i = 0; i < outs.size(); ++i) EXPECT_TRUE(same_bits(outs[i], expected[i])) << i;
    });
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(expected[i][n], 7.0f) << "wrote past the end";
  }
}

}  // namespace
}  // namespace thimble::kernels
