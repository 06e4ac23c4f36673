// Aim: norms, rotation, SwiGLU, pooling and addition compute their formulas within the declared
// bounds, row by row, whatever shares the call. Method: double evaluation; the same rows alone, in
// batches and with 1 to 4 threads; every table.
#include <gtest/gtest.h>

#include "kernels/internal/test_support.h"

namespace thimble::kernels {
namespace {

using test::Bench;
using test::kInf;
using test::same_bits;

constexpr double kUnit = 0x1p-24;

// Runs op(rows begin.., count, threads) -> values over all rows and over each alone; equal bits.
template <class Op>
void expect_pure(uint64_t rows, uint64_t out_cols, Op op) {
  std::vector<float> expected;
  {
    const ScopedTable scalar(*runnable().back());
    expected = op(0, rows, 1);
  }
  test::with_each_table([&] {
    for (uint32_t threads : {1, 2, 3, 4}) {
      ASSERT_TRUE(same_bits(op(0, rows, threads), expected)) << threads;
    }
    for (uint64_t i : {uint64_t{0}, rows / 2, rows - 1}) {
      const std::vector<float> own(expected.begin() + i * out_cols,
                                   expected.begin() + (i + 1) * out_cols);
      ASSERT_TRUE(same_bits(op(i, 1, 1), own)) << i;
    }
  });
}

TEST(RmsNorm, EqualsDoubleWithinTheBound) {
  base::SplitMix64 random(1);
  for (uint32_t cols : {1, 5, 16, 33, 5120}) {
    const std::vector<float> x = test::normal_floats(random, 3 * cols, 1e-3);
    const std::vector<float> w = test::normal_floats(random, cols);
    const std::vector<std::byte> bytes = test::bf16_bytes(w);
    test::with_each_table([&] {
      Bench bench;
      std::vector<float> y(3 * cols);
      rms_norm({x.data(), 3, cols}, bytes.data(), 1e-20f, {y.data(), 3, cols}, bench);
      for (uint32_t i = 0; i < 3; ++i) {
        double squares = 0;
        for (uint32_t d = 0; d < cols; ++d) squares += double{x[i * cols + d]} * x[i * cols + d];
        for (uint32_t d = 0; d < cols; ++d) {
          const double exact = numeric::round_bf16(w[d]) * double{x[i * cols + d]} /
                               std::sqrt(squares / cols + 1e-20);
          ASSERT_LE(std::fabs(y[i * cols + d] - exact),
                    (cols / 32.0 + 8) * kUnit * std::fabs(exact));
        }
      }
    });
  }
}

// Spec 3.4: a zero row gives zeros, not NaN; the epsilon is not flushed.
TEST(RmsNorm, ZeroRowAndInPlace) {
  Bench bench;
  const std::vector<std::byte> one = test::bf16_bytes(std::vector<float>(20, 1.0f));
  std::vector<float> x(20, 0.0f);
  rms_norm({x.data(), 1, 20}, one.data(), 1e-20f, {x.data(), 1, 20}, bench);
  EXPECT_EQ(x, std::vector<float>(20, 0.0f));
  x.assign(20, 1e-12f);
  rms_norm({x.data(), 1, 20}, one.data(), 1e-20f, {x.data(), 1, 20}, bench);
  EXPECT_NEAR(x[0], 1e-12 / std::sqrt(1e-24 + 1e-20), 1e-8);
}

TEST(RmsNorm, Pure) {
  base::SplitMix64 random(2);
  const uint64_t rows = 90, cols = 1100;
  const std::vector<float> x = test::awkward_floats(random, rows * cols);
  const std::vector<std::byte> w = test::bf16_bytes(test::normal_floats(random, cols));
  expect_pure(rows, cols, [&](uint64_t begin, uint64_t n, uint32_t threads) {
    Bench bench(threads);
    std::vector<float> y(n * cols);
    rms_norm({&x[begin * cols], n, cols}, w.data(), 1e-20f, {y.data(), n, cols}, bench);
    return y;
  });
}

TEST(Rope, RotatesTheLastPairsAndBack) {
  base::SplitMix64 random(3);
  const uint64_t rows = 7, vectors = 3, dims = 10, pairs = 4;
  const std::vector<float> x = test::normal_floats(random, rows * vectors * dims);
  std::vector<float> cos, sin;
  for (uint64_t i = 0; i < rows * pairs; ++i) {
    const double angle = random.uniform() * 100;
    cos.push_back(static_cast<float>(std::cos(angle)));
    sin.push_back(static_cast<float>(std::sin(angle)));
  }
  Bench bench;
  std::vector<float> y = x;
  auto turn = [&](Rotation rotation) {
    rope({y.data(), rows, vectors * dims}, vectors, {cos.data(), rows, pairs},
         {sin.data(), rows, pairs}, rotation, bench);
  };
  turn(Rotation::kForward);
  for (uint64_t i = 0; i < rows; ++i) {
    for (uint64_t v = 0; v < vectors; ++v) {
      const uint64_t at = (i * vectors + v) * dims;
      EXPECT_EQ(y[at], x[at]);
      EXPECT_EQ(y[at + 1], x[at + 1]);
      for (uint64_t p = 0; p < pairs; ++p) {
        const double a = x[at + 2 + 2 * p], b = x[at + 3 + 2 * p];
        const double c = cos[i * pairs + p], s = sin[i * pairs + p];
        const double bound = 2 * kUnit * (std::fabs(a) + std::fabs(b));
        EXPECT_NEAR(y[at + 2 + 2 * p], a * c - b * s, bound);
        EXPECT_NEAR(y[at + 3 + 2 * p], a * s + b * c, bound);
      }
    }
  }
  turn(Rotation::kBackward);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i], 1e-5);
}

TEST(Swiglu, ClampsWeighsAndStaysWithinTheBound) {
  base::SplitMix64 random(4);
  const uint64_t rows = 5, cols = 77;
  const std::vector<float> g = test::normal_floats(random, rows * cols, 4);
  const std::vector<float> u = test::normal_floats(random, rows * cols, 4);
  const std::vector<float> weight = test::normal_floats(random, rows);
  const float limit = 2.5f;
  for (const float* w : {weight.data(), static_cast<const float*>(nullptr)}) {
    Bench bench;
    std::vector<float> y = g;  // in place
    swiglu({y.data(), rows, cols}, {u.data(), rows, cols}, limit, w, {y.data(), rows, cols}, bench);
    for (uint64_t i = 0; i < rows * cols; ++i) {
      const double gate = std::min(g[i], limit);
      const double up = std::clamp(u[i], -limit, limit);
      const double exact = gate / (1 + std::exp(-gate)) * up * (w ? w[i / cols] : 1.0f);
      ASSERT_LE(std::fabs(y[i] - exact), 8 * kUnit * std::fabs(exact));
    }
  }
}

// Spec 8: the gate is clamped from above only.
TEST(Swiglu, GateHasNoLowerClamp) {
  Bench bench;
  const std::vector<float> gate = {-8, 8}, up = {1, 1};
  std::vector<float> y(2);
  swiglu({gate.data(), 1, 2}, {up.data(), 1, 2}, 3.0f, nullptr, {y.data(), 1, 2}, bench);
  EXPECT_FLOAT_EQ(y[0], -8 / (1 + std::exp(8.0f)));
  EXPECT_FLOAT_EQ(y[1], 3 / (1 + std::exp(-3.0f)));
}

// A broken value is not clamped into a sound one, in whole vectors and in what is left.
TEST(Swiglu, NanPassesTheClamps) {
  const uint64_t cols = 37;
  test::with_each_table([&] {
    Bench bench;
    for (uint64_t at = 0; at < cols; ++at) {
      for (const bool in_gate : {true, false}) {
        std::vector<float> gate(cols, 1.0f), up(cols, 2.0f), y(cols);
        (in_gate ? gate : up)[at] = test::kNan;
        swiglu({gate.data(), 1, cols}, {up.data(), 1, cols}, 1.5f, nullptr, {y.data(), 1, cols},
               bench);
        for (uint64_t i = 0; i < cols; ++i) {
          EXPECT_EQ(std::isnan(y[i]), i == at) << i << (in_gate ? " gate" : " up");
        }
      }
    }
  });
}

TEST(Swiglu, Pure) {
  base::SplitMix64 random(5);
  const uint64_t rows = 130, cols = 515;
  const std::vector<float> g = test::awkward_floats(random, rows * cols);
  const std::vector<float> u = test::awkward_floats(random, rows * cols);
  expect_pure(rows, cols, [&](uint64_t begin, uint64_t n, uint32_t threads) {
    Bench bench(threads);
    std::vector<float> y(n * cols);
    swiglu({&g[begin * cols], n, cols}, {&u[begin * cols], n, cols}, 1.5f, nullptr,
           {y.data(), n, cols}, bench);
    return y;
  });
}

TEST(AddRows, Strided) {
  Bench bench;
  const std::vector<float> x = {1, 2, 99, 3, 4, 99};
  std::vector<float> y = {10, 20, 30, 40, 50, 60, 70, 80};
  add_rows({x.data(), 2, 2, 3}, {y.data(), 2, 2, 4}, bench);
  EXPECT_EQ(y, (std::vector<float>{11, 22, 30, 40, 53, 64, 70, 80}));
}

TEST(PoolPair, SoftmaxOfTwoGates) {
  base::SplitMix64 random(6);
  const auto v0 = test::normal_floats(random, 50), v1 = test::normal_floats(random, 50);
  auto g0 = test::normal_floats(random, 50, 9), g1 = test::normal_floats(random, 50, 9);
  g0[0] = 1e30f;  // no overflow: one side takes all
  g1[1] = 1e30f;
  std::vector<float> y(50);
  pool_pair(v0.data(), g0.data(), v1.data(), g1.data(), 50, y.data());
  EXPECT_EQ(y[0], v0[0]);
  EXPECT_EQ(y[1], v1[1]);
  for (int i = 2; i < 50; ++i) {
    const double p = 1 / (1 + std::exp(double{g1[i]} - g0[i]));
    const double exact = p * v0[i] + (1 - p) * v1[i];
    const double size = p * std::fabs(v0[i]) + (1 - p) * std::fabs(v1[i]);
    const double gap = std::fabs(double{g1[i]} - g0[i]);
    EXPECT_NEAR(y[i], exact, (8 + gap) * kUnit * size);
  }
}

}  // namespace
}  // namespace thimble::kernels
