// Aim: the planner reproduces the published figures from architecture alone. Method: every figure
// that was stated for this design and its predecessors, computed from the built-in configuration
// and the presets; sums over layers checked against plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "planner/attribution.h"
#include "planner/cache_design.h"
#include "planner/capacity.h"
#include "planner/flops.h"
#include "planner/ledger.h"
#include "planner/traffic.h"

namespace thimble::planner {
namespace {

using testing::HasSubstr;

constexpr uint64_t kGiB = 1ULL << 30;

const arch::Config& released() { return arch::released_config(); }

CacheDesign generation(const std::string& id) {
  for (CacheDesign& design : generations()) {
    if (design.id == id) return std::move(design);
  }
  ADD_FAILURE() << id;
  return {};
}

TEST(LedgerFigures, OfTheReleasedModel) {
  const Ledger ledger = make_ledger(released(), arch::CacheFormat::kPacked);
  EXPECT_EQ(ledger.global_kv_bytes_per_token, 890.0);
  EXPECT_EQ(ledger.derivation, "3 x (288 + 68) / 2 + 1 x (288 + 68) = 890");
  ASSERT_EQ(ledger.owners.size(), 4u);
  EXPECT_EQ(ledger.owners[0].main_payload + ledger.owners[0].main_scales, 288u);
  EXPECT_EQ(ledger.owners[0].index_payload, 64u);
  EXPECT_EQ(ledger.owners[0].index_scales, 4u);
  EXPECT_EQ(ledger.owners[0].bytes_per_token, 178.0);
  EXPECT_EQ(ledger.owners[3].bytes_per_token, 356.0);
  EXPECT_EQ(ledger.window_bytes, 2'703'360u);
  EXPECT_EQ(ledger.half_pair_bytes, 12'288u);
  EXPECT_EQ(ledger.checkpoint_bytes, 510'286'023'000u);
  EXPECT_EQ(ledger.checkpoint_tensors, 96'085u);
  EXPECT_EQ(ledger.parameters, 763'205'315'794u);
  uint64_t parts = 0;
  for (const PartLine& part : ledger.parts) parts += part.bytes;
  EXPECT_EQ(parts, ledger.checkpoint_bytes);
}

TEST(GenerationFigures, EachFollowsFromItsArchitecture) {
  EXPECT_EQ(generation("dense-67b").bytes_per_token(), 389'120.0);
  EXPECT_EQ(generation("v3.2").bytes_per_token(), 48'068.0);
  EXPECT_EQ(generation("v4-flash").bytes_per_token(), 3514.25);
  EXPECT_EQ(generation("released").bytes_per_token(), 890.0);
  EXPECT_EQ(generation("dense-67b").formula(), "95 x 4096 = 389,120");
  EXPECT_EQ(generation("v3.2").formula(), "61 x 656 + 61 x 132 = 48,068");
  EXPECT_EQ(generation("v4-flash").formula(),
            "21 x 584 / 4 + 21 x 68 / 4 + 20 x 584 / 128 = 3,514.25");
  EXPECT_EQ(generation("released").formula(), "3 x 288 / 2 + 3 x 68 / 2 + 1 x 288 + 1 x 68 = 890");
  EXPECT_THAT(generation("v4-flash").note, HasSubstr("3,514.25"));
}

TEST(AttributionFigures, SharingAndFormat) {
  const Attribution a = attribute(modes_of(released()), 512, 128);
  const LatticePoint& per_layer = a.at(false, true, ValueFormat::kFp8);
  EXPECT_EQ(per_layer.entries_per_token, 29.0);
  EXPECT_EQ(a.values, 640u);
  EXPECT_EQ(per_layer.payload_bytes, 18'560.0);
  EXPECT_EQ(per_layer.bytes, 19'140.0);
  EXPECT_NEAR(a.sharing_factor, 11.6, 1e-9);
  EXPECT_NEAR(a.format_factor, 1.8, 0.005);
  EXPECT_EQ(a.at(true, true, ValueFormat::kFp4).bytes, 890.0);
  EXPECT_EQ(a.at(true, false, ValueFormat::kFp4).bytes, 4 * 356.0);
  EXPECT_EQ(a.at(false, false, ValueFormat::kBf16).bytes, 38 * 640 * 2.0);
}

TEST(CapacityFigures, ContextsInAMemory) {
  const CacheDesign design = generation("released");
  EXPECT_EQ(contexts_in(design, 40 * kGiB, 1'000'000).by_entries, 48u);
  const Contexts million = contexts_in(design, 80 * kGiB, 1 << 20);
  EXPECT_EQ(million.by_entries, 92u);
  EXPECT_EQ(million.with_windows, 91u);
  EXPECT_EQ(million.in_blocks, 91u);
  const Contexts dense = contexts_in(generation("dense-67b"), 40 * kGiB, 1'000'000);
  EXPECT_EQ(dense.by_entries, 0u);
  EXPECT_FALSE(dense.in_blocks.has_value());
}

TEST(CapacityFigures, WithoutEntriesWindowsAreTheBound) {
  const CacheDesign windows = design_of(released(), parse_modes("2xS").value(), 512, "");
  const Contexts contexts = contexts_in(windows, kGiB, 1000);
  EXPECT_EQ(contexts.by_entries, kGiB / (2 * 128 * 528 + 12));
  EXPECT_EQ(contexts.with_windows, contexts.by_entries);
}

TEST(CapacityFigures, BlocksAreWhatTheAllocatorTakes) {
  for (const uint32_t index : {64U, 128U}) {
    arch::Config config = released();
    config.index_head_dim = index;
    const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
    const uint64_t one = layout.reserved_bytes(1000) +
                         make_ledger(config, arch::CacheFormat::kPacked).sequence_bytes;
    const CacheDesign design = design_of(config, "");
    EXPECT_EQ(contexts_in(design, 7 * one, 1000).in_blocks, 7u);
    EXPECT_EQ(contexts_in(design, 7 * one - 1, 1000).in_blocks, 6u);
  }
}

TEST(CapacityFigures, PersistentTierAndSnapshots) {
  const CacheDesign design = generation("released");
  const PersistentTier tier =
      persistent_tier(design, generation("v4-flash"), 4'614'000'000'000, 20'000);
  EXPECT_NEAR(tier.ratio, 1.0 / 8, 0.002);
  EXPECT_NEAR(tier.entry_ratio, 1.0 / 4, 0.004);
  EXPECT_NEAR(tier.disk_bytes_for_72_hours, 4.6e12, 0.05e12);
  EXPECT_NEAR(tier.retention_hours, 72, 0.1);
  EXPECT_NEAR(tier.window_interval_tokens, 43.0 * 128 * 584 / 3514.25, 1e-9);
  // A tenth of 2 TiB.
  const Ledger ledger = make_ledger(released(), arch::CacheFormat::kPacked);
  EXPECT_NEAR(0.1 * 2048 * kGiB / static_cast<double>(ledger.snapshot_bytes), 80'000, 1500);
  EXPECT_EQ(snapshot_pool(30, 10, 1000).bytes, 300'000.0);
}

TEST(FlopsFigures, ActivatedParameters) {
  const ActivatedParameters active = activated_parameters(released());
  EXPECT_NEAR(active.prefill_main, 7.5e9, 0.05e9);
  EXPECT_NEAR(active.decode_main, 15.6e9, 0.05e9);
  // Reported as 8 and 16 billion.
  EXPECT_NEAR(active.prefill, 8e9, 0.5e9);
  EXPECT_NEAR(active.decode, 16e9, 0.5e9);
}

TEST(FlopsFigures, DecodeGrowsByAQuarterFrom4KTo1M) {
  const FlopsModel flops(released());
  const Ops near = sum(flops.decode(4095));
  const Ops far = sum(flops.decode((1 << 20) - 1));
  EXPECT_NEAR(far.weighted() / near.weighted(), 1.253, 0.001);
  // A first count left out the small parts.
  const auto large_parts = [&](uint64_t position) {
    OpsByPart parts = flops.decode(position);
    parts.erase(Part::kMixing);
    parts.erase(Part::kEngram);
    return sum(parts).weighted();
  };
  EXPECT_NEAR(large_parts((1 << 20) - 1) / large_parts(4095), 1.26, 0.005);
  EXPECT_GT(far.total() / near.total(), 1.5);
  // Every matrix, key and score summed up by hand.
  EXPECT_EQ(near.total(), 35'699'097'600.0);
  EXPECT_EQ(far.total(), 57'492'701'184.0);
}

TEST(FlopsFigures, AColdPromptCostsItsRowsInEveryLayer) {
  const FlopsModel flops(released());
  OpsByPart prompt = flops.prompt(0, false, 1, arch::Replay::kAuto);
  OpsByPart token = flops.decode(0);
  EXPECT_EQ(sum(prompt).total(), sum(token).total());
  // Long prompts: per token about the encoder's share.
  const double n = 100'000;
  const double per_token = sum(flops.prompt(0, false, 100'000, arch::Replay::kAuto)).total() / n;
  EXPECT_LT(per_token, 0.75 * sum(flops.decode(50'000)).total());
  EXPECT_GT(per_token, 2 * 7.9e9);
}

TEST(FlopsFigures, PoliciesCostWhatTheyRun) {
  const FlopsModel flops(released());
  const auto cost = [&](bool snapshot, arch::Replay replay) {
    return sum(flops.prompt(8192, snapshot, 256, replay)).total();
  };
  const double bounded = cost(false, arch::Replay::kBounded);
  const double automatic = cost(false, arch::Replay::kAuto);
  const double exact = cost(false, arch::Replay::kExact);
  EXPECT_LT(cost(true, arch::Replay::kExact), automatic);
  EXPECT_LT(bounded, automatic);
  EXPECT_LT(automatic, exact);
  EXPECT_LT(exact, sum(flops.prompt(0, false, 8448, arch::Replay::kExact)).total());
}

TEST(FlopsFigures, StaircaseSumsEqualALoop) {
  for (const uint32_t ratio : {1U, 2U, 3U}) {
    for (const uint64_t cap : {uint64_t{1}, uint64_t{5}, uint64_t{1000}}) {
      for (const uint64_t begin : {uint64_t{0}, uint64_t{3}, uint64_t{16}}) {
        for (const uint64_t end : {begin, begin + 1, begin + 7, begin + 40}) {
          double loop = 0;
          for (uint64_t p = begin; p < end; ++p) {
            loop += static_cast<double>(std::min(cap, (p + 1) / ratio));
          }
          EXPECT_EQ(sum_visible(begin, end, ratio, cap), loop)
              << begin << " " << end << " " << ratio << " " << cap;
        }
      }
    }
  }
}

TEST(TrafficFigures, ADecodedTokenTouches13GB) {
  const Traffic traffic = decode_traffic(released(), 4095);
  const auto gb = [&](const char* what) {
    for (const TrafficLine& line : traffic.weights) {
      if (line.what == what) return line.bytes * 1e-9;
    }
    return 0.0;
  };
  EXPECT_NEAR(gb("routed experts"), 4.5, 0.05);
  EXPECT_NEAR(gb("attention"), 5.1, 0.05);
  EXPECT_NEAR(gb("shared expert"), 1.4, 0.05);
  EXPECT_NEAR(gb("head"), 1.3, 0.05);
  EXPECT_NEAR(gb("rest"), 0.7, 0.05);
  EXPECT_NEAR(traffic.weight_bytes() * 1e-9, 13, 0.1);
  EXPECT_EQ(traffic.cache[0].bytes, 2'703'360.0);
}

// All of a token's traffic but for what lies outside of the layers: a row, a norm, the head.
TEST(TrafficFigures, LayersAddUp) {
  const arch::Config& config = released();
  for (const uint64_t position : {0, 1535, 300'000}) {
    double outside = 0;
    for (const arch::ExpectedTensor& tensor : arch::expected_tensors(config)) {
      if (tensor.name != "embed.weight" && tensor.name != "norm.weight" &&
          tensor.name != "head.weight") {
        continue;
      }
      outside += static_cast<double>(tensor.bytes()) * row_share(config, tensor);
    }
    const std::vector<double> layers = layer_traffic(config, position);
    EXPECT_EQ(layers.size(), config.num_hidden_layers);
    const Traffic all = decode_traffic(config, position);
    const double sum = std::accumulate(layers.begin(), layers.end(), outside);
    EXPECT_NEAR(sum / (all.weight_bytes() + all.cache_bytes()), 1, 1e-12);
  }
  const std::vector<double> near = layer_traffic(config, 1535);
  const std::vector<double> far = layer_traffic(config, 300'000);
  EXPECT_NEAR(near[0] * 1e-6, 282.927, 0.001);
  EXPECT_EQ(near[0], far[0]) << "a layer that reads its window alone";
  EXPECT_GT(far[2], near[2]) << "a layer that scores all entries";
  EXPECT_EQ(layer_of("layers.37.attn.wq_a.weight"), 37u);
  EXPECT_EQ(layer_of("head.weight"), std::nullopt);
}

TEST(Modes, TextAndBack) {
  const auto modes = modes_of(released());
  const std::string text = to_string(modes);
  EXPECT_EQ(text, "2xS, F2, 5xU, F2, 5xU, F2, 5xU, F1, 3xU, R, 3xU, R, 3xU, R, 3xU, R, 3xU");
  EXPECT_EQ(parse_modes(text).value(), modes);
  const auto config = with_modes(released(), modes);
  ASSERT_TRUE(config.has_value()) << config.error().describe();
  EXPECT_EQ(*config, released());
}

TEST(Modes, OtherMixes) {
  const auto modes = parse_modes("S,F4,3xU,F1,R").value();
  const CacheDesign design = design_of(released(), modes, 512, "");
  EXPECT_EQ(design.bytes_per_token(), 356.0 / 4 + 356);
  EXPECT_FALSE(with_modes(released(), modes).has_value());
  const auto shorter = with_modes(released(), parse_modes("2xS, F2, 5xU, F1, 2xR").value());
  ASSERT_TRUE(shorter.has_value()) << shorter.error().describe();
  EXPECT_EQ(shorter->engram.layer_ids, std::vector<uint32_t>{1});
  EXPECT_EQ(shorter->candidate_source_layer_id, 8u);
  EXPECT_EQ(make_ledger(*shorter, arch::CacheFormat::kPacked).global_kv_bytes_per_token,
            178.0 + 356.0);
}

TEST(Modes, BadTextIsNamed) {
  for (const char* text : {"", "X", "S,,S", "U", "R", "F0", "F3", "F2x", "0xS", "5S", "2000xS",
                           "S1", "99999999999xS", "F99999999999"}) {
    const auto modes = parse_modes(text);
    ASSERT_FALSE(modes.has_value()) << text;
    EXPECT_EQ(modes.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(modes.error().message, HasSubstr("expected items such as"));
  }
}

}  // namespace
}  // namespace thimble::planner
