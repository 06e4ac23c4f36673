// Aim: a random checkpoint is complete, replays from its seed and has sane statistics. Method:
// write, open, compare bytes; moments of decoded values.
#include "arch/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "arch/checkpoint.h"
#include "arch/layer_plan.h"
#include "arch/presets.h"
#include "numeric/bf16.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "tests/golden/golden.h"

namespace thimble::arch {
namespace {

Config nano() { return nano_config(270, 200); }

std::string write(const Config& config, const Path& directory, uint64_t seed,
                  uint64_t shard_bytes = 5'000'000'000) {
  uint64_t written = 0;
  const auto done = write_random_checkpoint(
      config, directory, seed, [&](uint64_t bytes) { written += bytes; }, shard_bytes);
  if (!done) return done.error().describe();
  EXPECT_EQ(written, totals(expected_tensors(config)).bytes);
  return "written";
}

TEST(RandomWeights, NanoIsCompleteAndSmall) {
  const base::TempDir dir;
  ASSERT_EQ(write(nano(), dir.path(), 1), "written");
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().describe();
  EXPECT_EQ(checkpoint->config(), nano());
  EXPECT_LT(checkpoint->bytes(), 25'000'000u);
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "model.safetensors.index.json"));
}

TEST(RandomWeights, NanoHasEveryRole) {
  const LayerPlan plan = make_layer_plan(nano());
  std::set<AttentionMode> modes;
  std::set<uint32_t> ratios;
  bool restricted = false;
  for (const LayerRole& role : plan.layers) {
    modes.insert(role.mode);
    restricted = restricted || role.uses_candidates;
  }
  for (const Owner& owner : plan.owners) ratios.insert(owner.ratio);
  EXPECT_EQ(modes.size(), 4u);
  EXPECT_EQ(ratios, (std::set<uint32_t>{1, 2}));
  EXPECT_TRUE(restricted);
  EXPECT_EQ(nano().engram.layer_ids.size(), 2u);
}

TEST(RandomWeights, SeedDecidesEveryByte) {
  const base::TempDir a, b, c;
  ASSERT_EQ(write(nano(), a.path(), 7), "written");
  ASSERT_EQ(write(nano(), b.path(), 7), "written");
  ASSERT_EQ(write(nano(), c.path(), 8), "written");
  const auto bytes = [](const base::TempDir& dir) {
    return *base::read_file(dir.path() / "model.safetensors");
  };
  EXPECT_EQ(bytes(a), bytes(b));
  EXPECT_NE(bytes(a), bytes(c));
}

// Whether one file or many, and with drafts and vision too.
TEST(RandomWeights, ShardsHoldTheSameTensors) {
  auto config = load_config(golden::path("t3_everything/model/config.json"));
  ASSERT_TRUE(config);
  const base::TempDir whole, cut;
  ASSERT_EQ(write(*config, whole.path(), 3), "written");
  ASSERT_EQ(write(*config, cut.path(), 3, 1'000'000), "written");
  EXPECT_FALSE(std::filesystem::exists(cut.path() / "model.safetensors"));
  const auto one = Checkpoint::open(whole.path());
  const auto many = Checkpoint::open(cut.path());
  ASSERT_TRUE(one) << one.error().describe();
  ASSERT_TRUE(many) << many.error().describe();
  for (const auto& tensor : expected_tensors(*config)) {
    const Bytes x = one->tensor(tensor.name).data, y = many->tensor(tensor.name).data;
    ASSERT_TRUE(std::ranges::equal(x, y)) << tensor.name;
  }
}

TEST(RandomWeights, ReportsADirectoryThatIsNotThere) {
  EXPECT_NE(write(nano(), "/nowhere/at/all", 1).find("/nowhere/at/all"), std::string::npos);
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  for (const double v : values) m.mean += v / static_cast<double>(values.size());
  for (const double v : values) {
    m.deviation += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
    m.largest = std::max(m.largest, std::abs(v));
  }
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(RandomWeights, ValuesAreSpreadAsIntended) {
  const base::TempDir dir;
  ASSERT_EQ(write(nano(), dir.path(), 1), "written");
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint);

  std::vector<double> embed, norm, experts, dense;
  for (const uint16_t v : checkpoint->tensor("embed.weight").as<uint16_t>()) {
    embed.push_back(numeric::bf16_to_float(v));
  }
  for (const uint16_t v : checkpoint->tensor("layers.3.attn_norm.weight").as<uint16_t>()) {
    norm.push_back(numeric::bf16_to_float(v));
  }
  const auto codes = checkpoint->tensor("layers.3.ffn.experts.5.w1.weight").as<uint8_t>();
  const auto scales = checkpoint->tensor("layers.3.ffn.experts.5.w1.scale").as<uint8_t>();
  for (size_t i = 0; i < codes.size(); ++i) {
    const double scale = numeric::e8m0_to_float(scales[i / 16]);
    experts.push_back(numeric::e2m1_to_float(codes[i] & 15) * scale);
    experts.push_back(numeric::e2m1_to_float(codes[i] >> 4) * scale);
  }
  for (const uint8_t code : checkpoint->tensor("layers.3.attn.wo_a.weight").as<uint8_t>()) {
    dense.push_back(numeric::e4m3_to_float(code));
  }
  EXPECT_NEAR(moments(embed).deviation, 1.0, 0.02);
  EXPECT_NEAR(moments(norm).mean, 1.0, 0.05);
  // Half of the scales are halved, so the spread is sqrt(5/8) of the nominal 1.1 / sqrt(256).
  EXPECT_NEAR(moments(experts).deviation, 1.1 / 16 * std::sqrt(0.625), 0.004);
  EXPECT_NEAR(moments(experts).mean, 0.0, 0.002);
  EXPECT_GT(moments(dense).largest, 60);   // the range of E4M3 is used,
  EXPECT_LT(moments(dense).largest, 448);  // nothing saturates
}

}  // namespace
}  // namespace thimble::arch
