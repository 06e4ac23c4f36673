// Aim: fast products of FP4 and FP8 weights are what ops.h says, to the same bits on every
// instruction set, for every shape, row company, thread count, packed or not.
// Method: (1) bits against the order spelled out here in plain loops; (2) the declared error
// bound against double; (3) shapes around every edge of lanes, tiles and row blocks; (4) extreme
// activations; (5) packing undone code by code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/internal/linear_jobs.h"
#include "kernels/internal/test_support.h"
#include "kernels/packed.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace thimble::kernels {
namespace {

using test::Bench;
using test::same_bits;

struct Weights {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  std::vector<std::byte> packed;
  WeightView view;
};

Weights make_weights(WeightFormat format, uint32_t rows, uint32_t cols, uint64_t seed) {
  base::SplitMix64 random(seed);
  const bool fp4 = format == WeightFormat::kFp4Group32;
  Weights w;
  w.codes.resize(fp4 ? uint64_t{rows} * cols / 2 : uint64_t{rows} * cols);
  for (std::byte& code : w.codes) {
    do {
      code = static_cast<std::byte>(random.below(256));
    } while (!fp4 && (code & std::byte{0x7F}) == std::byte{0x7F});  // no NaN
  }
  w.scales.resize(uint64_t{fp4 ? rows : (rows + 31) / 32} * (cols / 32));
  for (std::byte& scale : w.scales) scale = static_cast<std::byte>(120 + random.below(12));
  w.view = {format, w.codes.data(), w.scales.data(), rows, cols};
  w.view.arithmetic = Arithmetic::kFast;
  w.packed.resize(packed_bytes(w.view));
  pack_weight(w.view, 0, pack_blocks(rows), w.packed.data());
  return w;
}

uint8_t code_at(const WeightView& w, uint32_t row, uint32_t col) {
  const uint64_t i = uint64_t{row} * w.cols + col;
  if (w.format == WeightFormat::kFp8Block32) return static_cast<uint8_t>(w.codes[i]);
  return static_cast<uint8_t>(static_cast<uint8_t>(w.codes[i / 2]) >> (4 * (col % 2))) & 15;
}

float scale_at(const WeightView& w, uint32_t row, uint32_t col) {
  const uint64_t line = w.format == WeightFormat::kFp8Block32 ? (w.block_row + row) / 32 : row;
  return numeric::e8m0_to_float(static_cast<uint8_t>(w.scales[line * (w.cols / 32) + col / 32]));
}

// One output of one row, in the order that ops.h states.
float fp4_dot(const WeightView& w, uint32_t row, const float* x) {
  float y = 0;
  for (uint32_t g = 0; g < w.cols; g += 32) {
    float amax = 0;
    for (uint32_t k = 0; k < 32; ++k) amax = std::max(amax, std::fabs(x[g + k]));
    if (amax < 1e-30F) continue;
    const float inverse = 127.0F / amax;
    int32_t dot = 0;
    for (uint32_t k = 0; k < 32; ++k) {
      const auto code = static_cast<int32_t>(std::nearbyint(x[g + k] * inverse));
      dot += code * static_cast<int32_t>(2 * numeric::e2m1_to_float(code_at(w, row, g + k)));
    }
    const float factor = scale_at(w, row, g) * (amax * (0.5F / 127.0F));
    y = std::fma(static_cast<float>(dot), factor, y);
  }
  return y;
}

float fp8_dot(const WeightView& w, uint32_t row, const float* x) {
  float y = 0;
  for (uint32_t g = 0; g < w.cols; g += 32) {
    float dot = 0;
    for (uint32_t k = g; k < g + 32; ++k) {
      dot = std::fma(x[k], numeric::e4m3_to_float(code_at(w, row, k)) / 256, dot);
    }
    y = std::fma(dot, scale_at(w, row, g) * 256, y);
  }
  return y;
}

std::vector<float> expected(const WeightView& w, const std::vector<float>& x, uint64_t n) {
  std::vector<float> y;
  for (uint64_t i = 0; i < n; ++i) {
    for (uint32_t o = 0; o < w.rows; ++o) {
      const float* row = &x[i * w.cols];
      y.push_back(w.format == WeightFormat::kFp4Group32 ? fp4_dot(w, o, row) : fp8_dot(w, o, row));
    }
  }
  return y;
}

std::vector<float> run(const WeightView& w, const std::vector<float>& x, uint64_t n,
                       uint32_t threads = 1) {
  Bench bench(threads);
  std::vector<float> y(n * w.rows, -7.0F);
  linear(w, {x.data(), n, w.cols}, {y.data(), n, w.rows}, bench);
  return y;
}

std::vector<float> random_rows(uint64_t count, uint64_t seed) {
  base::SplitMix64 random(seed);
  std::vector<float> x(count);
  for (float& value : x) value = static_cast<float>(4 * (random.uniform() - 0.5));
  return x;
}

constexpr WeightFormat kFormats[] = {WeightFormat::kFp4Group32, WeightFormat::kFp8Block32};

TEST(LinearFast, TheOrderOfOpsAtEveryEdge) {
  for (const WeightFormat format : kFormats) {
    for (const uint32_t outputs : {1U, 16U, 33U, 100U}) {
      for (const uint32_t cols : {32U, 544U}) {
        Weights w = make_weights(format, outputs, cols, outputs + cols);
        for (const uint64_t n : {1, 2, 3, 5, 7, 8, 13, 26, 129}) {
          const auto x = random_rows(n * cols, n);
          const auto wanted = expected(w.view, x, n);
          for (const Table* table : test::tables()) {
            const ScopedTable scope(*table);
            for (const std::byte* packed : {static_cast<const std::byte*>(nullptr),
                                            static_cast<const std::byte*>(w.packed.data())}) {
              w.view.packed = packed;
              ASSERT_TRUE(same_bits(run(w.view, x, n), wanted))
                  << name(*table) << " n " << n << " outputs " << outputs << " cols " << cols
                  << " format " << static_cast<int>(format) << " packed " << (packed != nullptr);
            }
          }
        }
      }
    }
  }
}

TEST(LinearFast, ThreadsAndNeighboursDoNotMatter) {
  for (const WeightFormat format : kFormats) {
    Weights w = make_weights(format, 1000, 320, 5);
    w.view.packed = w.packed.data();
    const auto x = random_rows(40 * 320, 6);
    const auto all = run(w.view, x, 40, 2);
    for (uint64_t i = 0; i < 40; i += 13) {
      const std::vector<float> row(x.begin() + static_cast<int64_t>(i) * 320,
                                   x.begin() + static_cast<int64_t>(i + 1) * 320);
      const std::vector<float> alone = run(w.view, row, 1);
      EXPECT_TRUE(same_bits(alone, {all.begin() + static_cast<int64_t>(i) * 1000,
                                    all.begin() + static_cast<int64_t>(i + 1) * 1000}));
    }
  }
}

// Where blocks are packed as they are read, each thread has a place of its own for them.
TEST(LinearFast, StreamedEqualsPackedOnAnyNumberOfThreads) {
  for (const WeightFormat format : kFormats) {
    Weights w = make_weights(format, 1000, 320, 5);
    for (const uint64_t n : {1, 7, 40, 130}) {
      const auto x = random_rows(n * 320, n);
      test::with_each_table([&] {
        w.view.packed = w.packed.data();
        const auto wanted = run(w.view, x, n);
        w.view.packed = nullptr;
        for (const uint32_t threads : {1U, 2U, 3U, 5U}) {
          EXPECT_TRUE(same_bits(run(w.view, x, n, threads), wanted)) << n << " rows, " << threads;
        }
      });
    }
  }
}

// No byte past fast_scratch_bytes(), whether blocks lie packed or are packed there.
TEST(LinearFast, ScratchHoldsTheBlockThatIsPacked) {
  constexpr uint64_t kGuard = 1 << 17;
  constexpr uint32_t kOutputs = 100;
  for (const WeightFormat format : kFormats) {
    for (const uint32_t cols : {32U, 320U, 6400U}) {
      Weights w = make_weights(format, kOutputs, cols, cols);
      for (const uint64_t n : {uint64_t{1}, uint64_t{13}, internal::kFastRows}) {
        const auto x = random_rows(n * cols, n);
        const auto wanted = expected(w.view, x, n);
        for (const std::byte* packed : {static_cast<const std::byte*>(nullptr),
                                        static_cast<const std::byte*>(w.packed.data())}) {
          w.view.packed = packed;
          test::with_each_table([&] {
            Bench bench(1);
            const Workspace::Mark mark(bench.workspace);
            std::vector<float> y(n * kOutputs);
            const LinearJob job{w.view, {x.data(), n, cols}, {y.data(), n, kOutputs}};
            const auto inputs = internal::prepare_inputs(kernels(), {&job, 1}, bench);
            const uint64_t bytes = internal::fast_scratch_bytes(w.view);
            std::vector<std::byte> scratch(bytes + kGuard, std::byte{0xA5});
            internal::run_fast(kernels(), w.view, 0, kOutputs, inputs[0], job.y, scratch.data());
            EXPECT_TRUE(same_bits(y, wanted));
            const auto guard = std::span(scratch).subspan(bytes);
            EXPECT_TRUE(std::ranges::all_of(guard, [](auto b) { return b == std::byte{0xA5}; }))
                << n << " x " << cols << " packed " << (packed != nullptr);
          });
        }
      }
    }
  }
}

TEST(LinearFast, SlicesOfOutputs) {
  for (const WeightFormat format : kFormats) {
    Weights w = make_weights(format, 96, 64, 9);
    const auto x = random_rows(3 * 64, 2);
    const auto whole = run(w.view, x, 3);
    for (const bool packed : {false, true}) {
      w.view.packed = packed ? w.packed.data() : nullptr;
      for (const uint32_t begin : {0U, 16U, 32U, 48U, 80U}) {
        const WeightView part = w.view.outputs(begin, 16);
        const auto y = run(part, x, 3);
        for (uint64_t i = 0; i < 3; ++i) {
          for (uint32_t o = 0; o < 16; ++o) EXPECT_EQ(y[i * 16 + o], whole[i * 96 + begin + o]);
        }
      }
      for (const uint32_t begin : {16U, 48U}) {  // scale blocks begin within the slice
        const auto y = run(w.view.outputs(begin, 48), x, 3);
        for (uint64_t i = 0; i < 3; ++i) {
          for (uint32_t o = 0; o < 48; ++o) EXPECT_EQ(y[i * 48 + o], whole[i * 96 + begin + o]);
        }
      }
    }
  }
}

TEST(LinearFast, DeclaredErrorHolds) {
  for (const WeightFormat format : kFormats) {
    for (const uint32_t cols : {32U, 2304U, 5120U}) {
      const Weights w = make_weights(format, 40, cols, cols);
      const auto x = random_rows(2 * cols, 3);
      const auto y = run(w.view, x, 2);
      for (uint64_t i = 0; i < 2; ++i) {
        for (uint32_t o = 0; o < 40; ++o) {
          double exact = 0, size = 0, rounding = 0;
          for (uint32_t g = 0; g < cols; g += 32) {
            double amax = 0, weights = 0;
            for (uint32_t k = g; k < g + 32; ++k) {
              const double value = format == WeightFormat::kFp4Group32
                                       ? numeric::e2m1_to_float(code_at(w.view, o, k))
                                       : numeric::e4m3_to_float(code_at(w.view, o, k));
              const double product = x[i * cols + k] * value * scale_at(w.view, o, k);
              exact += product;
              size += std::fabs(product);
              weights += std::fabs(value * scale_at(w.view, o, k));
              amax = std::max(amax, std::fabs(double{x[i * cols + k]}));
            }
            if (format == WeightFormat::kFp4Group32) rounding += weights * amax / 254;
          }
          const double bound = rounding + (cols / 32 + 36) * 0x1p-24 * (size + rounding);
          EXPECT_LE(std::fabs(y[i * 40 + o] - exact), bound);
        }
      }
    }
  }
}

TEST(LinearFast, ExtremeActivations) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const WeightFormat format : kFormats) {
    const Weights w = make_weights(format, 17, 64, 1);
    std::vector<std::vector<float>> rows;
    for (const float value :
         {0.0F, 1e-45F, 1e-38F, 1e-31F, 1e30F, 3e38F, infinity, -infinity, nan}) {
      for (const uint32_t at : {0U, 15U, 16U, 31U, 63U}) {
        auto x = random_rows(64, 4);
        x[at] = value;
        rows.push_back(x);
      }
      rows.push_back(std::vector<float>(64, value));
    }
    for (const auto& x : rows) {
      std::vector<std::vector<float>> results;
      for (const Table* table : test::tables()) {
        const ScopedTable scope(*table);
        results.push_back(run(w.view, x, 1));
        EXPECT_TRUE(same_bits(results.back(), results.front()));
      }
      const bool finite = std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
      if (!finite && format == WeightFormat::kFp4Group32) {
        for (const float y : results.front()) EXPECT_TRUE(std::isnan(y));
      }
      if (std::ranges::all_of(x, [](float v) { return v == 0; })) {
        for (const float y : results.front()) EXPECT_EQ(y, 0);
      }
    }
  }
}

TEST(LinearFast, PackingIsUndoneCodeByCode) {
  for (const WeightFormat format : kFormats) {
    const Weights w = make_weights(format, 37, 96, 8);
    for (uint32_t o = 0; o < 48; ++o) {
      const std::byte* block = &w.packed[o / 16 * pack_block_bytes(format, 96)];
      for (uint32_t k = 0; k < 96; ++k) {
        const PackedCode packed = packed_code(format, 96, block, o % 16, k);
        EXPECT_EQ(packed.code, o < 37 ? code_at(w.view, o, k) : 0);
        if (o >= 37) continue;
        EXPECT_EQ(numeric::e8m0_to_float(packed.scale), scale_at(w.view, o, k));
      }
    }
  }
}

TEST(LinearFast, ANanAmongFp8CodesSpoilsItsOutputs) {
  Weights w = make_weights(WeightFormat::kFp8Block32, 32, 64, 3);
  w.codes[5 * 64 + 40] = std::byte{0xFF};
  pack_weight(w.view, 0, 2, w.packed.data());
  const auto x = random_rows(64, 1);
  for (const std::byte* packed :
       {static_cast<const std::byte*>(nullptr), static_cast<const std::byte*>(w.packed.data())}) {
    w.view.packed = packed;
    const auto y = run(w.view, x, 1);
    for (uint32_t o = 0; o < 16; ++o) EXPECT_TRUE(std::isnan(y[o]));
    for (uint32_t o = 16; o < 32; ++o) EXPECT_TRUE(std::isfinite(y[o]));
  }
}

// Of either sign, in every part of a group, for one row and many.
TEST(LinearFast, EveryNanCodeSpoilsItsGroup) {
  for (const std::byte code : {std::byte{0x7F}, std::byte{0xFF}}) {
    for (const uint32_t col : {0U, 7U, 8U, 15U, 16U, 31U, 40U, 63U}) {
      Weights w = make_weights(WeightFormat::kFp8Block32, 32, 64, 3);
      w.codes[5 * 64 + col] = code;
      pack_weight(w.view, 0, 2, w.packed.data());
      for (const uint64_t n : {1, 7, 26}) {
        const auto x = random_rows(n * 64, 1);
        for (const std::byte* packed : {static_cast<const std::byte*>(nullptr),
                                        static_cast<const std::byte*>(w.packed.data())}) {
          w.view.packed = packed;
          const auto y = run(w.view, x, n);
          for (uint64_t i = 0; i < n * 32; ++i) {
            EXPECT_EQ(std::isnan(y[i]), i % 32 < 16) << col << " of " << n;
          }
        }
      }
    }
  }
}

// A slice that begins within a block has no packed form.
TEST(LinearFast, SlicesWithinABlockReadTheCodes) {
  for (const WeightFormat format : kFormats) {
    Weights w = make_weights(format, 96, 64, 9);
    const auto x = random_rows(3 * 64, 2);
    for (const uint32_t begin : {1U, 8U, 24U, 47U}) {
      const auto wanted = run(w.view.outputs(begin, 40), x, 3);
      WeightView packed = w.view;
      packed.packed = w.packed.data();
      EXPECT_EQ(packed.outputs(begin, 40).packed, nullptr) << begin;
      EXPECT_TRUE(same_bits(run(packed.outputs(begin, 40), x, 3), wanted)) << begin;
      EXPECT_EQ(packed.outputs(32, 40).packed, packed.packed + 2 * pack_block_bytes(format, 64));
    }
  }
}

// Whatever is left beside four blocks, or eight: right, and nothing written beside the outputs.
TEST(LinearFast, OutputsAroundRunsOfBlocks) {
  for (const WeightFormat format : kFormats) {
    for (const uint32_t outputs : {47U, 48U, 57U, 64U, 112U, 120U, 128U, 129U, 185U, 300U}) {
      Weights w = make_weights(format, outputs, 32, outputs);
      w.view.packed = w.packed.data();
      for (const uint64_t n : {1, 7, 26}) {
        const auto x = random_rows(n * 32, n);
        const auto wanted = expected(w.view, x, n);
        test::with_each_table([&] {
          Bench bench(1);
          const uint64_t stride = outputs + 70;
          std::vector<float> y(n * stride, -7.0F);
          linear(w.view, {x.data(), n, 32}, {y.data(), n, outputs, stride}, bench);
          for (uint64_t i = 0; i < n * stride; ++i) {
            const uint64_t o = i % stride;
            const float value = o < outputs ? wanted[i / stride * outputs + o] : -7.0F;
            ASSERT_TRUE(same_bits(y[i], value)) << outputs << " x " << n << ": " << o;
          }
        });
      }
    }
  }
}

// Of the entries themselves: no byte past packed_scratch_bytes().
TEST(LinearFast, ScratchIsAsDeclared) {
  constexpr uint32_t kOutputs = 20 * kPackOutputs;
  constexpr uint64_t kGuard = 1 << 17;
  for (const uint32_t cols : {32U, 320U, 6400U}) {
    for (const WeightFormat format : kFormats) {
      const Weights w = make_weights(format, kOutputs, cols, cols);
      for (const uint64_t n : {1, 5, 13, 26, 128}) {
        const auto x = random_rows(n * cols, n);
        const Rows<const float> rows(x.data(), n, cols);
        test::with_each_table([&] {
          const uint64_t bytes = packed_scratch_bytes(cols, n);
          std::vector<std::byte> scratch(bytes + kGuard, std::byte{0xA5});
          std::vector<float> y(n * kOutputs);
          if (format == WeightFormat::kFp4Group32) {
            std::vector<int8_t> codes(n * cols);
            std::vector<float> scales(n * cols / 32);
            std::vector<int32_t> offsets(n * cols / 32);
            for (uint64_t i = 0; i < n; ++i) {
              kernels().quantize_row(rows.row(i), cols, &codes[i * cols], &scales[i], &offsets[i],
                                     n);
            }
            kernels().packed_fp4(w.packed.data(), 20, kOutputs,
                                 {codes.data(), scales.data(), offsets.data(), n, cols},
                                 {y.data(), n, kOutputs}, scratch.data());
          } else {
            std::vector<float> tiles(n * cols);
            kernels().tile_rows(rows, tiles.data());
            kernels().packed_fp8(w.packed.data(), 20, kOutputs, {tiles.data(), n, cols},
                                 {y.data(), n, kOutputs}, scratch.data());
          }
          for (uint64_t i = 0; i < kGuard; ++i) {
            ASSERT_EQ(scratch[bytes + i], std::byte{0xA5}) << n << " x " << cols << ": " << i;
          }
        });
      }
    }
  }
}

// Jobs share their prepared rows only if both want the same of the same rows.
TEST(LinearFast, BatchEqualsSingles) {
  const Weights fp4 = make_weights(WeightFormat::kFp4Group32, 48, 64, 1);
  const Weights fp8 = make_weights(WeightFormat::kFp8Block32, 48, 64, 2);
  const auto x = random_rows(6 * 80, 3);
  const auto other = random_rows(6 * 80, 4);
  struct Case {
    const Weights& weights;
    Rows<const float> x;
  };
  const Case cases[] = {{fp4, {x.data(), 3, 64}},     {fp8, {x.data(), 3, 64}},
                        {fp8, {x.data(), 5, 64}},     {fp8, {x.data(), 5, 64, 80}},
                        {fp8, {other.data(), 5, 64}}, {fp4, {other.data(), 5, 64}},
                        {fp4, {x.data(), 5, 64}},     {fp4, {x.data(), 6, 64, 72}},
                        {fp4, {x.data(), 2, 64, 72}}, {fp4, {x.data(), 2, 64}}};
  for (const uint32_t threads : {1U, 3U}) {
    Bench bench(threads);
    std::vector<std::vector<float>> ys;
    std::vector<LinearJob> jobs;
    for (const Case& c : cases) ys.emplace_back(c.x.rows * 48);
    for (size_t j = 0; j < ys.size(); ++j) {
      jobs.push_back({cases[j].weights.view, cases[j].x, {ys[j].data(), cases[j].x.rows, 48}});
    }
    linear_batch(jobs, bench);
    for (size_t j = 0; j < ys.size(); ++j) {
      std::vector<float> alone(ys[j].size());
      Bench own(1);
      linear(jobs[j].weight, jobs[j].x, {alone.data(), jobs[j].x.rows, 48}, own);
      EXPECT_TRUE(same_bits(ys[j], alone)) << j;
    }
  }
}

// Groups of activations below 1e-30 count as zero, and only those.
TEST(LinearFast, WhatCountsAsZero) {
  const Weights w = make_weights(WeightFormat::kFp4Group32, 16, 64, 7);
  for (const float size : {0.9e-30F, 1.1e-30F, 1e-25F}) {
    auto x = random_rows(64, 5);
    for (float& value : x) value *= size / 2;
    x[3] = size;
    x[40] = size;
    test::with_each_table(
        [&] { EXPECT_TRUE(same_bits(run(w.view, x, 1), expected(w.view, x, 1))); });
    const auto y = run(w.view, x, 1);
    EXPECT_EQ(std::ranges::all_of(y, [](float v) { return v == 0; }), size < 1e-30F);
  }
}

// Packing writes every byte of its blocks, whatever was there.
TEST(LinearFast, PackingDependsOnTheMatrixAlone) {
  for (const WeightFormat format : kFormats) {
    const Weights w = make_weights(format, 37, 96, 8);
    std::vector<std::byte> again(w.packed.size(), std::byte{0xAA});
    pack_weight(w.view, 0, 3, again.data());
    const uint64_t bytes = 3 * pack_block_bytes(format, 96);
    EXPECT_TRUE(
        std::equal(again.begin(), again.begin() + static_cast<int64_t>(bytes), w.packed.begin()));
  }
}

TEST(LinearFast, OtherMatricesStayExact) {
  WeightView view;
  view.format = WeightFormat::kBF16;
  EXPECT_FALSE(packable(view));
  view.format = WeightFormat::kFp8Block32;
  view.block_row = 8;  // begins within a block of 16
  EXPECT_FALSE(packable(view));
}

// linear_test holds exact products at the same.
TEST(LinearFast, LargeScalesOfFp8) {
  for (const uint32_t scale : {246U, 247U, 250U, 254U}) {
    Weights w = make_weights(WeightFormat::kFp8Block32, 16, 64, 1);
    std::ranges::fill(w.scales, static_cast<std::byte>(scale));
    std::fill(w.codes.begin(), w.codes.begin() + 8 * 64, std::byte{0});   // outputs 0..7: zeros
    std::fill(w.codes.begin() + 8 * 64, w.codes.end(), std::byte{0x08});  // 2^-6
    pack_weight(w.view, 0, 1, w.packed.data());
    const std::vector<float> x(64, 0x1p-20F);
    for (const Arithmetic a : {Arithmetic::kExact, Arithmetic::kFast}) {
      w.view.arithmetic = a;
      const auto y = run(w.view, x, 1);
      EXPECT_EQ(y[0], 0) << scale << " fast " << (a == Arithmetic::kFast);
      EXPECT_TRUE(std::isfinite(y[8]))
          << scale << " fast " << (a == Arithmetic::kFast) << " " << y[8];
    }
  }
}

}  // namespace
}  // namespace thimble::kernels
