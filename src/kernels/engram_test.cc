// Aim: Engram rows decode from the table bytes and are added through the gate of engram spec 2.7.
// Method: the worked check of the spec; double evaluation; closed gates leave the stream alone;
// purity and equal bits on every table.
#include <gtest/gtest.h>

#include "kernels/internal/test_support.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"

namespace thimble::kernels {
namespace {

using test::Bench;
using test::same_bits;

TEST(EngramGather, ConcatenatesDecodedRows) {
  base::SplitMix64 random(1);
  const uint64_t table_rows = 50;
  const uint32_t head_dim = 64;
  const std::vector<std::byte> codes = test::random_bytes(random, table_rows * head_dim);
  std::vector<std::byte> scales(table_rows * 2);
  for (std::byte& s : scales) s = static_cast<std::byte>(110 + random.below(20));
  const std::vector<int64_t> ids = {0, 49, 7, 7, 30, 1};
  test::with_each_table([&] {
    Bench bench;
    std::vector<float> out(2 * 3 * head_dim);
    engram_gather({codes.data(), scales.data(), table_rows, head_dim}, {ids.data(), 2, 3},
                  {out.data(), 2, 3 * head_dim}, bench);
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t row = static_cast<uint64_t>(ids[i / head_dim]), d = i % head_dim;
      const float expected =
          numeric::e4m3_to_float(static_cast<uint8_t>(codes[row * head_dim + d])) *
          numeric::e8m0_to_float(static_cast<uint8_t>(scales[row * 2 + d / 32]));
      ASSERT_TRUE(same_bits(out[i], expected));
    }
  });
}

TEST(EngramGatherDeathTest, RefusesRowsOutsideTheTable) {
  const std::vector<std::byte> table(64);
  std::vector<float> out(32);
  for (int64_t id : {int64_t{1}, int64_t{-1}}) {
    EXPECT_DEATH(
        {
          Bench bench(1);
          engram_gather({table.data(), table.data(), 1, 32}, {&id, 1, 1}, {out.data(), 1, 32},
                        bench);
        },
        "CHECK");
  }
}

// The gate check of spec 2.7: two copies of width four, the second one zero.
TEST(EngramApply, WorkedCheck) {
  test::with_each_table([&] {
    Bench bench;
    std::vector<float> stream = {1, -2, 0.5f, 3, 0, 0, 0, 0};
    const std::vector<float> kv = {0.25f, 0.5f, -1, 1.5f, 0.25f, 0.5f, -1, 1.5f, 1, -1, 2, 0.5f};
    const auto q = test::bf16_bytes(std::vector<float>(8, 1.0f));
    const auto k = test::bf16_bytes({1, 0.5f, 1, 2, 1, 0.5f, 1, 2});
    std::vector<float> gates(2);
    engram_apply({stream.data(), 1, 8}, {kv.data(), 1, 12}, q.data(), k.data(), 2, 1e-20f, nullptr,
                 {gates.data(), 1, 2}, bench);
    EXPECT_NEAR(gates[0], 0.8207992, 1e-7);
    EXPECT_NEAR(gates[1], 0.50025, 1e-7);
    const double expected[] = {1.8207992, -2.8207992, 2.1415985, 3.4103996};
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(stream[i], expected[i], 4e-7);
  });
}

// Spec 2.11: the clamp lies inside the root (outside it, the gate at zero would be 0.50000025), and
// the sign stays outside.
TEST(EngramApply, ClampInsideTheRootSignOutside) {
  Bench bench;
  const auto one = test::bf16_bytes({1, 1});
  auto gate_of = [&](float h) {
    std::vector<float> stream = {h, h}, gates(1);
    const std::vector<float> kv = {1, 1, 0, 0};
    engram_apply({stream.data(), 1, 2}, {kv.data(), 1, 4}, one.data(), one.data(), 1, 1e-20f,
                 nullptr, {gates.data(), 1, 1}, bench);
    return gates[0];
  };
  EXPECT_NEAR(gate_of(0), 1 / (1 + std::exp(-0.001)), 1e-7);
  const double root = std::sqrt(std::sqrt(2.0));
  EXPECT_NEAR(gate_of(1), 1 / (1 + std::exp(-root)), 1e-7);
  EXPECT_NEAR(gate_of(-1), 1 / (1 + std::exp(root)), 1e-7);
}

struct Scene {
  uint64_t rows = 40, hidden;
  uint32_t copies = 4;
  std::vector<float> stream, kv;
  std::vector<std::byte> q, k;
  std::vector<uint8_t> alive;
  explicit Scene(uint64_t hidden_in) : hidden(hidden_in) {
    base::SplitMix64 random(hidden);
    stream = test::normal_floats(random, rows * copies * hidden);
    kv = test::normal_floats(random, rows * (copies + 1) * hidden);
    q = test::bf16_bytes(test::normal_floats(random, copies * hidden));
    k = test::bf16_bytes(test::normal_floats(random, copies * hidden));
    for (uint64_t i = 0; i < rows; ++i) alive.push_back(i % 3 != 1);
  }
  // The stream afterwards, then the gates.
  std::vector<float> run(uint64_t begin, uint64_t n, uint32_t threads) {
    Bench bench(threads);
    const uint64_t width = copies * hidden;
    std::vector<float> out(stream.begin() + begin * width, stream.begin() + (begin + n) * width);
    std::vector<float> gates(n * copies, -7.0f);
    engram_apply({out.data(), n, width}, {&kv[begin * (width + hidden)], n, width + hidden},
                 q.data(), k.data(), copies, 1e-20f, &alive[begin], {gates.data(), n, copies},
                 bench);
    out.insert(out.end(), gates.begin(), gates.end());
    return out;
  }
};

TEST(EngramApply, PureAndTheSameOnEveryTable) {
  for (uint64_t hidden : {1, 17, 96, 700}) {
    Scene scene(hidden);
    std::vector<float> expected;
    {
      const ScopedTable scalar(*runnable().back());
      expected = scene.run(0, 40, 1);
    }
    const uint64_t width = scene.copies * hidden;
    for (uint64_t i = 0; i < 40; ++i) {
      if (scene.alive[i] != 0) continue;
      for (uint64_t d = 0; d < width; ++d) {
        ASSERT_TRUE(same_bits(expected[i * width + d], scene.stream[i * width + d]));
      }
      EXPECT_EQ(expected[40 * width + i * 4], 0.0f);
    }
    test::with_each_table([&] {
      for (uint32_t threads : {1, 2, 4})
        EXPECT_TRUE(same_bits(scene.run(0, 40, threads), expected));
      std::vector<float> alone = scene.run(8, 1, 1);
      alone.resize(width);
      EXPECT_TRUE(same_bits(alone, {&expected[8 * width], &expected[8 * width] + width}));
    });
  }
}

TEST(EngramApply, GateIsTheDotOfTheTwoNorms) {
  Scene scene(5120);
  scene.rows = 2;
  const std::vector<float> out = scene.run(0, 1, 1);
  const uint64_t hidden = scene.hidden;
  auto bf16 = [](const std::vector<std::byte>& bytes, uint64_t i) {
    uint16_t bits;
    std::memcpy(&bits, &bytes[2 * i], 2);
    return double{numeric::bf16_to_float(bits)};
  };
  for (uint32_t c = 0; c < 4; ++c) {
    double hh = 0, kk = 0, dot = 0;
    for (uint64_t d = 0; d < hidden; ++d) {
      const double h = scene.stream[c * hidden + d], key = scene.kv[c * hidden + d];
      hh += h * h;
      kk += key * key;
      dot += h * bf16(scene.q, c * hidden + d) * bf16(scene.k, c * hidden + d) * key;
    }
    const double width = static_cast<double>(hidden);
    const double a = dot / std::sqrt(hh / width) / std::sqrt(kk / width) / std::sqrt(width);
    const double gate = 1 / (1 + std::exp(-std::copysign(std::sqrt(std::fabs(a)), a)));
    EXPECT_NEAR(out[4 * hidden + c], gate, 1e-5);
  }
}

}  // namespace
}  // namespace thimble::kernels
