// Aim: mHC coefficients and sums are those of backbone spec 4.3 and 4.4.
// Method: the known answers of 10.2; double evaluation on random streams within the bound; purity
// and equal bits on every table.
#include <gtest/gtest.h>

#include "kernels/internal/test_support.h"

namespace thimble::kernels {
namespace {

using test::Bench;
using test::same_bits;

struct Mix {
  std::vector<float> pre, post, comb;
  Mix(uint64_t rows, uint32_t n) : pre(rows * n), post(rows * n), comb(rows * n * n), n_(n) {}
  HcMix view() {
    const uint64_t rows = pre.size() / n_;
    return {
        {pre.data(), rows, n_}, {post.data(), rows, n_}, {comb.data(), rows, uint64_t{n_} * n_}};
  }

 private:
  uint32_t n_;
};

// Spec 10.2: a stream of ones has mean square 1, so that the first column of fn is m.
struct KnownMix {
  std::vector<float> fn, base, stream;
  std::vector<float> scale = {0.9f, 1.1f, 0.7f};
  HcWeights weights;
  KnownMix() : fn(24 * 8), stream(8, 1.0f) {
    for (int k = 0; k < 24; ++k) {
      fn[k * 8] = static_cast<float>(((7 * k) % 24 - 11.5) / 8);
      base.push_back(static_cast<float>(((5 * k) % 24 - 12) / 20.0));
    }
    weights = {fn.data(), scale.data(), base.data(), 4, 20, 1e-6f, 1e-20f};
  }
};

TEST(HcMix, KnownAnswers) {
  const double pre[] = {0.13081849, 0.29812442, 0.54518986, 0.77184450};
  const double post[] = {0.69445432, 0.70013160, 1.28845021, 0.36671908};
  const double comb[] = {0.213893246, 0.286734916, 0.400923112, 0.098447725,
                         0.280670112, 0.376252965, 0.213893231, 0.129182692,
                         0.215947238, 0.289488377, 0.164569273, 0.329994112,
                         0.289488403, 0.047522742, 0.220613384, 0.442374470};
  KnownMix known;
  test::with_each_table([&] {
    Bench bench;
    Mix mix(1, 4);
    hc_mix(known.weights, {known.stream.data(), 1, 8}, mix.view(), bench);
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(mix.pre[i], pre[i], 2e-7);
      EXPECT_NEAR(mix.post[i], post[i], 2e-7);
    }
    for (int i = 0; i < 16; ++i) EXPECT_NEAR(mix.comb[i], comb[i], 2e-7);
  });
}

TEST(HcPost, KnownAnswers) {
  KnownMix known;
  Bench bench;
  Mix mix(1, 4);
  hc_mix(known.weights, {known.stream.data(), 1, 8}, mix.view(), bench);
  std::vector<float> stream = {1, 10, 2, 20, 3, 30, 4, 40};
  const std::vector<float> y = {1, 2};
  hc_post({stream.data(), 1, 8}, {y.data(), 1, 2}, mix.view(), bench);
  const double expected[] = {3.27548312, 27.19919662, 2.79792854, 22.37823264,
                             3.49332114, 24.62560971, 3.48301241, 31.89637143};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(stream[i], expected[i], 4e-6);
}

// The epsilon of `pre`, which no golden model notices: without it pre would be sigmoid alone.
TEST(HcMix, PreCarriesTheEpsilonAndPostDoesNot) {
  const std::vector<float> fn(8 * 3, 0.0f), scale(3, 1.0f), base(8, -100.0f);
  const std::vector<float> stream(4, 1.0f);
  const HcWeights weights{fn.data(), scale.data(), base.data(), 2, 3, 1e-6f, 1e-20f};
  Bench bench;
  Mix mix(1, 2);
  hc_mix(weights, {stream.data(), 1, 3}, mix.view(), bench);
  EXPECT_EQ(mix.pre[0], 1e-6f);
  EXPECT_EQ(mix.post[0], 0.0f);
}

// Plain double arithmetic of spec 4.3 for one token.
void double_mix(const HcWeights& w, const float* stream, uint64_t width, std::vector<double>& pre,
                std::vector<double>& post, std::vector<double>& comb) {
  const uint32_t n = w.copies;
  double squares = 0;
  for (uint64_t d = 0; d < width; ++d) squares += double{stream[d]} * stream[d];
  const double r = 1 / std::sqrt(squares / static_cast<double>(width) + w.norm_eps);
  std::vector<double> z;
  for (uint32_t k = 0; k < (2 + n) * n; ++k) {
    double dot = 0;
    for (uint64_t d = 0; d < width; ++d) dot += double{w.fn[k * width + d]} * stream[d];
    z.push_back(dot * r * w.scale[k < n ? 0 : k < 2 * n ? 1 : 2] + w.base[k]);
  }
  pre.clear(), post.clear(), comb.assign(z.begin() + 2 * n, z.end());
  for (uint32_t i = 0; i < n; ++i) {
    pre.push_back(1 / (1 + std::exp(-z[i])) + w.hc_eps);
    post.push_back(2 / (1 + std::exp(-z[n + i])));
  }
  auto scale_lines = [&](uint32_t line_step, uint32_t step, double eps) {
    for (uint32_t a = 0; a < n; ++a) {
      double total = eps;
      for (uint32_t b = 0; b < n; ++b) total += comb[a * line_step + b * step];
      for (uint32_t b = 0; b < n; ++b) comb[a * line_step + b * step] /= total;
    }
  };
  for (double& c : comb) c = std::exp(c);
  scale_lines(n, 1, 0);
  for (double& c : comb) c += w.hc_eps;
  scale_lines(1, n, w.hc_eps);
  for (uint32_t round = 1; round < w.sinkhorn_iters; ++round) {
    scale_lines(n, 1, w.hc_eps);
    scale_lines(1, n, w.hc_eps);
  }
}

struct RandomMix {
  std::vector<float> fn, scale, base, stream;
  HcWeights weights;
  uint64_t rows, width;
  RandomMix(uint64_t seed, uint64_t rows_in, uint32_t n, uint64_t hidden)
      : rows(rows_in), width(n * hidden) {
    base::SplitMix64 random(seed);
    fn = test::normal_floats(random, (2 + n) * n * width, 0.1);
    scale = test::normal_floats(random, 3);
    base = test::normal_floats(random, (2 + n) * n);
    stream = test::normal_floats(random, rows * width, 3);
    weights = {fn.data(), scale.data(), base.data(), n, 20, 1e-6f, 1e-20f};
  }
  Mix run(uint64_t begin, uint64_t n, uint32_t threads) {
    Bench bench(threads);
    Mix mix(n, weights.copies);
    hc_mix(weights, {&stream[begin * width], n, width}, mix.view(), bench);
    return mix;
  }
};

TEST(HcMix, EqualsDoubleWithinTheBound) {
  for (uint32_t n : {1, 2, 4, 8}) {
    RandomMix random(n, 6, n, 70);
    const Mix mix = random.run(0, 6, 1);
    for (uint64_t i = 0; i < 6; ++i) {
      std::vector<double> pre, post, comb;
      double_mix(random.weights, &random.stream[i * random.width], random.width, pre, post, comb);
      for (uint32_t k = 0; k < n; ++k) {
        EXPECT_NEAR(mix.pre[i * n + k], pre[k], 2e-6);
        EXPECT_NEAR(mix.post[i * n + k], post[k], 4e-6);
      }
      for (uint32_t k = 0; k < n * n; ++k) EXPECT_NEAR(mix.comb[i * n * n + k], comb[k], 4e-6);
    }
  }
}

// Logits whose exponentials would not be numbers.
TEST(HcMix, LargeLogits) {
  RandomMix random(12, 2, 4, 20);
  for (size_t k = 8; k < random.base.size(); ++k) random.base[k] = k % 5 < 2 ? 120.0f : 119.0f;
  const Mix mix = random.run(0, 2, 1);
  for (uint64_t i = 0; i < 2; ++i) {
    std::vector<double> pre, post, comb;
    double_mix(random.weights, &random.stream[i * random.width], random.width, pre, post, comb);
    for (uint32_t k = 0; k < 16; ++k) EXPECT_NEAR(mix.comb[i * 16 + k], comb[k], 1e-4);
  }
}

// Rows far apart, of either sign: each is measured from its own largest logit, or all of its
// exponentials would be infinite, or zero.
TEST(HcMix, RowsFarApart) {
  RandomMix random(14, 2, 4, 20);
  const float rows[] = {120.0f, -120.0f, 200.0f, -200.0f};
  for (uint32_t k = 0; k < 16; ++k) random.base[8 + k] += rows[k / 4];
  const Mix mix = random.run(0, 2, 1);
  for (uint64_t i = 0; i < 2; ++i) {
    std::vector<double> pre, post, comb;
    double_mix(random.weights, &random.stream[i * random.width], random.width, pre, post, comb);
    for (uint32_t k = 0; k < 16; ++k) EXPECT_NEAR(mix.comb[i * 16 + k], comb[k], 2e-4);
  }
}

// An epsilon that is no rounding error stands in every place of the spec.
TEST(HcMix, EpsilonOfEveryRound) {
  RandomMix random(13, 2, 4, 20);
  random.weights.hc_eps = 0.05f;
  for (const uint32_t rounds : {1u, 2u, 20u}) {
    random.weights.sinkhorn_iters = rounds;
    const Mix mix = random.run(0, 2, 1);
    for (uint64_t i = 0; i < 2; ++i) {
      std::vector<double> pre, post, comb;
      double_mix(random.weights, &random.stream[i * random.width], random.width, pre, post, comb);
      for (uint32_t k = 0; k < 4; ++k) EXPECT_NEAR(mix.pre[i * 4 + k], pre[k], 4e-6);
      for (uint32_t k = 0; k < 16; ++k) EXPECT_NEAR(mix.comb[i * 16 + k], comb[k], 4e-6);
    }
  }
}

TEST(HcMix, PureAndTheSameOnEveryTable) {
  RandomMix random(11, 40, 4, 300);
  Mix expected(0, 4);
  {
    const ScopedTable scalar(*runnable().back());
    expected = random.run(0, 40, 1);
  }
  test::with_each_table([&] {
    for (uint32_t threads : {1, 2, 4}) {
      const Mix mix = random.run(0, 40, threads);
      EXPECT_TRUE(same_bits(mix.pre, expected.pre));
      EXPECT_TRUE(same_bits(mix.post, expected.post));
      EXPECT_TRUE(same_bits(mix.comb, expected.comb));
    }
    const Mix alone = random.run(17, 1, 1);
    EXPECT_TRUE(same_bits(alone.comb, {&expected.comb[17 * 16], &expected.comb[17 * 16] + 16}));
  });
}

// One pass is the three calls, bit for bit: few rows and many, with a branch and without.
TEST(HcTurn, IsPostMixAndCollapse) {
  constexpr uint32_t kCopies = 4;
  for (const uint64_t hidden : {5, 64, 300}) {
    for (const uint64_t rows : {1, 31, 64, 75, 130}) {
      RandomMix random(rows + hidden, rows, kCopies, hidden);
      Mix spread = random.run(0, rows, 1);
      base::SplitMix64 more(hidden);
      const std::vector<float> y = test::normal_floats(more, rows * hidden);
      const std::vector<float> pre = test::normal_floats(more, rows * kCopies);
      const auto run = [&](bool turns, bool branch, uint32_t threads) {
        Bench bench(threads);
        std::vector<float> stream = random.stream, x(rows * hidden);
        Mix mix(rows, kCopies);
        const Rows<float> all(stream.data(), rows, random.width);
        const Rows<float> out(x.data(), rows, hidden);
        const Rows<const float> spent(branch ? y.data() : nullptr, rows, hidden);
        if (turns) {
          hc_turn({all,
                   spent,
                   spread.view(),
                   random.weights,
                   mix.view(),
                   {pre.data(), rows, kCopies},
                   out},
                  bench);
        } else {
          if (branch) hc_post(all, spent, spread.view(), bench);
          hc_mix(random.weights, all, mix.view(), bench);
          hc_collapse(all, {pre.data(), rows, kCopies}, out, bench);
        }
        for (const auto* more_of : {&x, &mix.pre, &mix.post, &mix.comb}) {
          stream.insert(stream.end(), more_of->begin(), more_of->end());
        }
        return stream;
      };
      test::with_each_table([&] {
        for (const bool branch : {false, true}) {
          const std::vector<float> expected = run(false, branch, 1);
          for (const uint32_t threads : {1, 2, 3}) {
            EXPECT_TRUE(same_bits(run(true, branch, threads), expected)) << rows << ' ' << hidden;
          }
        }
      });
    }
  }
}

TEST(HcSums, CollapseAndPostOnEveryTable) {
  for (uint32_t n : {1, 3, 4, 8}) {
    for (uint64_t hidden : {1, 16, 37}) {
      RandomMix random(n + hidden, 5, n, hidden);
      Mix mix = random.run(0, 5, 1);
      base::SplitMix64 more(1);
      const std::vector<float> y = test::normal_floats(more, 5 * hidden);
      auto both = [&] {
        Bench bench;
        std::vector<float> x(5 * hidden), stream = random.stream;
        hc_collapse({stream.data(), 5, random.width}, mix.view().pre, {x.data(), 5, hidden}, bench);
        hc_post({stream.data(), 5, random.width}, {y.data(), 5, hidden}, mix.view(), bench);
        x.insert(x.end(), stream.begin(), stream.end());
        return x;
      };
      const ScopedTable scalar(*runnable().back());
      const std::vector<float> expected = both();
      for (uint64_t d = 0; d < hidden; ++d) {
        double x = 0, size = 0;
        for (uint32_t c = 0; c < n; ++c) {
          const double term = double{mix.pre[c]} * random.stream[c * hidden + d];
          x += term;
          size += std::fabs(term);
        }
        EXPECT_NEAR(expected[d], x, (n + 1) * 0x1p-24 * size);
      }
      test::with_each_table([&] { EXPECT_TRUE(same_bits(both(), expected)); });
    }
  }
}

}  // namespace
}  // namespace thimble::kernels
