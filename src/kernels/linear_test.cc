// Aim: linear() multiplies by exactly decoded weights, in the canonical order, to the same bits on
// every instruction set, for every shape, row company, thread count and address.
// Method: (1) bits against the order of ops.h spelled out here, over decoded weights; (2) the
// declared error bound against double; (3) shapes around every edge of lanes, tiles, slices and row
// blocks; (4) rows alone against rows in a batch; (5) extreme scales, NaN, infinity, denormals.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/internal/test_support.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace thimble::kernels {
namespace {

using test::Bench;
using test::same_bits;

// Element (row, col) of a weight, from the definition of its format.
float weight_at(const WeightView& w, uint32_t row, uint32_t col) {
  const uint64_t i = uint64_t{row} * w.cols + col;
  auto byte = [](const std::byte* p, uint64_t at) { return static_cast<uint8_t>(p[at]); };
  switch (w.format) {
    case WeightFormat::kF32: {
      float value;
      std::memcpy(&value, w.codes + 4 * i, 4);
      return value;
    }
    case WeightFormat::kBF16:
      return numeric::bf16_to_float(
          static_cast<uint16_t>(byte(w.codes, 2 * i) | (byte(w.codes, 2 * i + 1) << 8)));
    case WeightFormat::kFp8Block32:
      return numeric::e4m3_to_float(byte(w.codes, i)) *
             numeric::e8m0_to_float(
                 byte(w.scales, uint64_t{(w.block_row + row) / 32} * (w.cols / 32) + col / 32));
    case WeightFormat::kFp4Group32:
      return numeric::e2m1_to_float(static_cast<uint8_t>(byte(w.codes, i / 2) >> (4 * (col % 2)))) *
             numeric::e8m0_to_float(byte(w.scales, i / 32));
  }
  return 0;
}

std::vector<float> decoded(const WeightView& w) {
  std::vector<float> out;
  for (uint32_t r = 0; r < w.rows; ++r) {
    for (uint32_t c = 0; c < w.cols; ++c) out.push_back(weight_at(w, r, c));
  }
  return out;
}

std::vector<float> run_linear(const WeightView& w, const std::vector<float>& x, uint64_t n,
                              uint32_t threads = 1) {
  Bench bench(threads);
  std::vector<float> y(n * w.rows, -7.0f);
  linear(w, {x.data(), n, w.cols}, {y.data(), n, w.rows}, bench);
  return y;
}

std::vector<float> lane_linear(const WeightView& w, const std::vector<float>& x, uint64_t n) {
  const std::vector<float> matrix = decoded(w);
  std::vector<float> y;
  for (uint64_t i = 0; i < n; ++i) {
    for (uint32_t o = 0; o < w.rows; ++o) {
      y.push_back(test::block_dot(&x[i * w.cols], &matrix[uint64_t{o} * w.cols], w.cols));
    }
  }
  return y;
}

struct Shape {
  uint64_t n;
  uint32_t outputs;
  uint32_t cols;
};

TEST(Linear, CanonicalOrderAtEveryEdge) {
  std::vector<Shape> shapes;
  for (uint64_t n : {1, 2, 3, 4, 5, 8, 17}) {
    for (uint32_t outputs : {1, 2, 3, 5, 33}) {
      for (uint32_t cols : {1, 15, 16, 17, 31, 32, 33, 96}) shapes.push_back({n, outputs, cols});
    }
  }
  // Slices of the inputs, row blocks.
  for (uint32_t cols : {1024, 1025, 1056, 2080}) shapes.push_back({6, 35, cols});
  for (uint64_t n : {64, 65, 130}) shapes.push_back({n, 34, 96});
  base::SplitMix64 random(1);
  for (const Shape& s : shapes) {
    for (WeightFormat format : test::kWeightFormats) {
      if (test::is_scaled(format) && s.cols % 32 != 0) continue;
      const test::Weight w = test::make_weight(random, format, s.outputs, s.cols);
      const std::vector<float> x = test::awkward_floats(random, s.n * s.cols);
      const std::vector<float> expected = lane_linear(w.view, x, s.n);
      test::with_each_table([&] {
        ASSERT_TRUE(same_bits(run_linear(w.view, x, s.n), expected))
            << s.n << " x " << s.outputs << " x " << s.cols << " format " << int(format);
      });
    }
  }
}

TEST(Linear, NoRowsNoOutputs) {
  base::SplitMix64 random(2);
  const test::Weight w = test::make_weight(random, WeightFormat::kBF16, 5, 20);
  const test::Weight none = test::make_weight(random, WeightFormat::kBF16, 0, 20);
  test::with_each_table([&] {
    EXPECT_TRUE(run_linear(w.view, {}, 0).empty());
    EXPECT_TRUE(run_linear(none.view, std::vector<float>(40), 2).empty());
  });
}

// The bound ops.h states.
TEST(Linear, ErrorBound) {
  base::SplitMix64 random(3);
  for (uint32_t cols : {32, 512, 5120}) {
    for (WeightFormat format : test::kWeightFormats) {
      const test::Weight w = test::make_weight(random, format, 9, cols);
      const std::vector<float> x = test::normal_floats(random, 3 * cols);
      const std::vector<float> y = run_linear(w.view, x, 3);
      const double units = std::min(cols, 512u) / 16 + cols / 512 + 5;
      for (uint64_t i = 0; i < 3; ++i) {
        for (uint32_t o = 0; o < 9; ++o) {
          double exact = 0, size = 0;
          for (uint32_t k = 0; k < cols; ++k) {
            const double product = double{x[i * cols + k]} * weight_at(w.view, o, k);
            exact += product;
            size += std::fabs(product);
          }
          EXPECT_LE(std::fabs(y[i * 9 + o] - exact), units * 0x1p-24 * size);
        }
      }
    }
  }
}

TEST(Linear, RowsDoNotDependOnCompanyOrThreads) {
  base::SplitMix64 random(4);
  for (WeightFormat format : test::kWeightFormats) {
    const uint32_t cols = 1120, outputs = 77;
    const test::Weight w = test::make_weight(random, format, outputs, cols);
    const uint64_t n = 70;
    const std::vector<float> x = test::normal_floats(random, n * cols);
    const std::vector<float> all = run_linear(w.view, x, n);
    for (uint32_t threads : {2, 3, 4})
      EXPECT_TRUE(same_bits(run_linear(w.view, x, n, threads), all));
    for (uint64_t i : {0, 1, 5, 63, 64, 69}) {
      const std::vector<float> own(x.begin() + i * cols, x.begin() + (i + 1) * cols);
      const std::vector<float> row(all.begin() + i * outputs, all.begin() + (i + 1) * outputs);
      EXPECT_TRUE(same_bits(run_linear(w.view, own, 1), row)) << i;
    }
    for (uint64_t n_part : {2, 3, 4, 5, 9}) {
      const std::vector<float> own(x.begin() + 11 * cols, x.begin() + (11 + n_part) * cols);
      const std::vector<float> rows(all.begin() + 11 * outputs,
                                    all.begin() + (11 + n_part) * outputs);
      EXPECT_TRUE(same_bits(run_linear(w.view, own, n_part), rows)) << n_part;
    }
  }
}

TEST(Linear, StridesAndNothingWrittenBetweenRows) {
  base::SplitMix64 random(5);
  const test::Weight w = test::make_weight(random, WeightFormat::kBF16, 7, 20);
  const std::vector<float> x = test::normal_floats(random, 6 * 23);
  std::vector<float> packed;
  for (int i = 0; i < 6; ++i) packed.insert(packed.end(), &x[i * 23], &x[i * 23] + 20);
  test::with_each_table([&] {
    Bench bench;
    std::vector<float> y(6 * 11, -7.0f);
    linear(w.view, {x.data(), 6, 20, 23}, {y.data(), 6, 7, 11}, bench);
    const std::vector<float> expected = run_linear(w.view, packed, 6);
    for (int i = 0; i < 6; ++i) {
      for (int o = 0; o < 11; ++o) {
        EXPECT_EQ(y[i * 11 + o], o < 7 ? expected[i * 7 + o] : -7.0f);
      }
    }
  });
}

// The workspace hands out memory as it was left: NaN there must not leak through padded columns.
TEST(Linear, ScratchMayHoldAnything) {
  base::SplitMix64 random(10);
  for (uint32_t cols : {5, 33, 520}) {
    const test::Weight w = test::make_weight(random, WeightFormat::kBF16, 9, cols);
    const std::vector<float> x = test::normal_floats(random, 20 * cols);
    test::with_each_table([&] {
      Bench bench(1);
      {
        const Workspace::Mark mark(bench.workspace);
        std::ranges::fill(bench.workspace.take<float>(2 * kLinearScratch), test::kNan);
      }
      std::vector<float> y(20 * 9);
      linear(w.view, {x.data(), 20, cols}, {y.data(), 20, 9}, bench);
      EXPECT_TRUE(same_bits(y, run_linear(w.view, x, 20))) << cols;
      EXPECT_FALSE(std::isnan(y[0]));
    });
  }
}

TEST(Linear, BatchEqualsSingles) {
  base::SplitMix64 random(6);
  std::vector<test::Weight> weights;
  std::vector<std::vector<float>> xs, ys;
  const uint64_t rows[] = {1, 0, 9, 3};
  for (int j = 0; j < 4; ++j) {
    weights.push_back(test::make_weight(random, WeightFormat::kFp4Group32, 300, 256));
    xs.push_back(test::normal_floats(random, rows[j] * 256));
    ys.emplace_back(rows[j] * 300);
  }
  for (uint32_t threads : {1, 3}) {
    std::vector<LinearJob> jobs;
    for (int j = 0; j < 4; ++j) {
      jobs.push_back({weights[j].view, {xs[j].data(), rows[j], 256}, {ys[j].data(), rows[j], 300}});
    }
    Bench bench(threads);
    linear_batch(jobs, bench);
    for (int j = 0; j < 4; ++j) {
      EXPECT_TRUE(same_bits(ys[j], run_linear(weights[j].view, xs[j], rows[j])));
      std::fill(ys[j].begin(), ys[j].end(), 0.0f);
    }
  }
}

// Byte 0 is 2^-127, 255 is NaN; E4M3 NaN codes decode to NaN, not to 480.
TEST(Linear, ExtremeScalesAndCodes) {
  base::SplitMix64 random(7);
  for (WeightFormat format : {WeightFormat::kFp8Block32, WeightFormat::kFp4Group32}) {
    for (uint32_t scale : {0, 1, 2, 120, 246, 247, 253, 254, 255}) {
      test::Weight w = test::make_weight(random, format, 40, 64, scale, scale);
      w.codes[5] = std::byte{0x7F};
      w.codes[600] = std::byte{0xFF};
      std::vector<float> x = test::awkward_floats(random, 7 * 64);
      x[3] = test::kInf;
      x[64] = test::kNan;
      for (uint64_t n : {1, 7}) {
        const std::vector<float> expected = lane_linear(w.view, x, n);
        test::with_each_table(
            [&] { ASSERT_TRUE(same_bits(run_linear(w.view, x, n), expected)) << scale; });
      }
    }
  }
}

TEST(DecodeWeightRow, EveryFormat) {
  base::SplitMix64 random(8);
  for (WeightFormat format : test::kWeightFormats) {
    const uint32_t cols = test::is_scaled(format) ? 96 : 83;
    const test::Weight w = test::make_weight(random, format, 50, cols, 0, 254);
    const std::vector<float> expected = decoded(w.view);
    test::with_each_table([&] {
      std::vector<float> out(50 * cols);
      for (uint32_t r = 0; r < 50; ++r) {
        decode_weight_row(w.view, r, std::span(out).subspan(r * cols, cols));
      }
      EXPECT_TRUE(same_bits(out, expected));
    });
  }
}

TEST(WeightView, Outputs) {
  base::SplitMix64 random(9);
  for (WeightFormat format : test::kWeightFormats) {
    const test::Weight w = test::make_weight(random, format, 70, 64);
    for (const uint32_t begin : {0U, 24U, 32U}) {  // 24: a slice that crosses a scale block
      const WeightView part = w.view.outputs(begin, 33);
      for (uint32_t r = 0; r < 33; ++r) {
        for (uint32_t c = 0; c < 64; ++c) {
          EXPECT_TRUE(same_bits(weight_at(part, r, c), weight_at(w.view, r + begin, c)));
        }
      }
      const WeightView inner = part.outputs(12, 21);  // a slice of a slice
      for (uint32_t r = 0; r < 21; ++r) {
        for (uint32_t c = 0; c < 64; ++c) {
          EXPECT_TRUE(same_bits(weight_at(inner, r, c), weight_at(w.view, r + begin + 12, c)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace thimble::kernels
