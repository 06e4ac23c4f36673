// Aim: speeds, transfers and prompts on a machine follow from bytes, rates and what lies where.
// Method: figures worked out anew from the sums of the ledger and of a decoded token's traffic;
// machines that are too small, lopsided, or hold part of the model on a graphics card.
#include "planner/placement.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/plan.h"

namespace thimble::planner {
namespace {

constexpr uint64_t kGiB = 1ULL << 30;

const ModelCosts& released() {
  static const ModelCosts costs(arch::released_config());
  return costs;
}

Machine machine(const char* name) { return find_machine(name).value(); }

double routed_bytes() { return Traffic{released().weight_lines, {}}.routed_bytes(); }

double read_bytes(uint64_t position) {
  return decode_traffic(released().config, position).weight_bytes() +
         decode_traffic(released().config, position).cache_bytes();
}

TEST(Placement, MemoryAndDiskAtTheirRates) {
  const PlacementWish wish{.position = 4095};
  const Placement placed = place(released(), machine("desktop"), wish);
  EXPECT_TRUE(placed.fits);
  // What dense weights leave of 128 GiB.
  const auto& weights = released().weights;
  const double left = 128.0 * kGiB - static_cast<double>(weights.dense);
  EXPECT_NEAR(placed.experts_resident, left / static_cast<double>(weights.experts), 1e-9);
  const double missing = routed_bytes() * (1 - placed.experts_resident);
  EXPECT_NEAR(placed.speed.tokens_per_second(), 7e9 / missing, 1e-6);
  EXPECT_EQ(placed.speed.bound, "disk");
  EXPECT_NEAR(placed.all_resident.tokens_per_second(), 70e9 / read_bytes(4095), 1e-6);
  EXPECT_EQ(placed.all_resident.bound, "memory");
  EXPECT_NEAR(placed.none_resident.tokens_per_second(), 7e9 / routed_bytes(), 1e-6);
}

TEST(Placement, AGraphicsCardSpeedsUpWhatItHolds) {
  const PlacementWish wish{.position = 4095};
  const Machine with_card = machine("desktop-gpu");
  const Placement placed = place(released(), with_card, wish);
  const double on_card = static_cast<double>(24 * kGiB - released().weights.dense) /
                         static_cast<double>(released().weights.experts);
  const double slow = routed_bytes() * (1 - on_card);
  const double seconds = slow / 70e9 + (read_bytes(4095) - slow) / 900e9;
  EXPECT_NEAR(placed.all_resident.seconds, seconds, 1e-6 * seconds);
  EXPECT_EQ(resident_speed(released(), with_card, wish).seconds, placed.all_resident.seconds);
}

TEST(Placement, ASlowCardIsBoundByOperations) {
  Machine m = machine("gpu-server");
  m.gpu.fp8_gflops = 1;
  const Placement placed = place(released(), m, {.position = 4095});
  EXPECT_EQ(placed.speed.bound, "operations");
}

TEST(Placement, TooSmallSaysByHowMuch) {
  Machine m = machine("laptop");
  m.ram_bytes = 8 * kGiB;
  const PlacementWish wish{.pool_bytes = kGiB, .snapshot_bytes = kGiB, .step_bytes = kGiB};
  const Placement placed = place(released(), m, wish);
  EXPECT_FALSE(placed.fits);
  EXPECT_EQ(placed.missing_bytes, released().weights.dense + 3 * kGiB - 8 * kGiB);
  m.ram_bytes += placed.missing_bytes;
  EXPECT_TRUE(place(released(), m, wish).fits);
}

TEST(Placement, OnlyTheBestChangeComesFirst) {
  const Placement placed = place(released(), machine("desktop"), {.position = 4095});
  for (size_t i = 1; i < placed.advice.size(); ++i) {
    EXPECT_GE(placed.advice[i - 1].tokens_per_second, placed.advice[i].tokens_per_second);
  }
  EXPECT_GE(placed.advice.front().tokens_per_second, placed.speed.tokens_per_second());
}

TEST(Prefill, OneTokenReadsWhatADecodedOneDoes) {
  const Machine m = machine("desktop");
  const double bytes = Traffic{released().weight_lines, {}}.weight_bytes();
  EXPECT_NEAR(prefill_seconds(released(), m, {}, 1), bytes / 70e9, 1e-6);
}

TEST(Prefill, OnTwoTokensThatShareNoExpertReadsMore) {
  Machine m = machine("desktop");
  m.cpu.bf16_gflops = m.cpu.fp8_gflops = m.cpu.fp4_gflops = 1e11;  // bytes alone
  const auto gb = [&](uint64_t tokens) { return prefill_seconds(released(), m, {}, tokens) * 70; };
  const double dense = gb(1) - 1e-9 * routed_bytes();
  const double experts = 1e-9 * static_cast<double>(released().weights.experts);
  EXPECT_NEAR(gb(2), dense + experts * (1 - std::pow(1 - 6.0 / 384, 2)), 1e-3);
  // A step more reads the weights once more, in the half that has rows to run; 5,120 tokens fill
  // the decoder's last 2,541 rows.
  const double step = gb(5120 + kPromptRows) - gb(5120);
  EXPECT_NEAR(step, 0.5 * (dense + experts * (1 - std::pow(1 - 6.0 / 384, 256))), 1e-3);
}

TEST(Transfer, BytesAndBreakEven) {
  const Transfer t = transfer(released(), machine("gpu-server"), {}, 1 << 20, 50, 20);
  EXPECT_EQ(t.entry_bytes, 890ULL << 20);
  EXPECT_EQ(t.window_bytes, 2'703'360u + 12'288u);
  EXPECT_NEAR(t.seconds, 20e-6 + 1e-9 * (890.0 * (1 << 20) + 2'715'648) / 50, 1e-12);
  // A slow, far link pays from some length on only.
  const Machine fast = machine("gpu-server");
  const auto at = [&](uint64_t n) { return transfer(released(), fast, {}, n, 0.1, 20'000); };
  const uint64_t even = at(1).break_even_tokens;
  ASSERT_GT(even, 1u);
  EXPECT_LT(at(even).seconds, at(even).recompute_seconds);
  EXPECT_GE(at(even - 1).seconds, at(even - 1).recompute_seconds);
  EXPECT_EQ(transfer(released(), fast, {}, 1, 1e-6, 0).break_even_tokens, 0u);
  EXPECT_EQ(at(1).window_bytes, 2'703'360u / 128 + 12'288u);
}

TEST(Plan, TheTableOfRoofsAgreesWithThePlacement) {
  for (const Machine& m : machine_presets()) {
    PlanRequest request;
    request.machine = m.name;
    request.context_tokens = 1 << 20;
    const auto plan = make_plan(arch::released_config(), "released", request);
    ASSERT_TRUE(plan.has_value()) << plan.error().describe();
    EXPECT_EQ(plan->model->decode.back().seconds, plan->model->placement.all_resident.seconds)
        << m.name;
  }
}

TEST(Plan, TailsCostTheirRows) {
  const auto plan = make_plan(arch::released_config(), "released", {});
  ASSERT_TRUE(plan.has_value()) << plan.error().describe();
  const PrefillPoint& point = plan->model->prefill.front();
  ASSERT_EQ(point.tokens, 4096u);
  // Summed up by hand over layers and positions: 20 layers of 128 rows when bounded.
  EXPECT_NEAR(sum(point.exact).total(), 90'993'676'623'872.0, 1);
  EXPECT_NEAR(sum(point.bounded_tail).total(), 72'658'994'593'792.0, 1);
}

TEST(Plan, ASmallModelIsPlannedWithinItsLength) {
  arch::Config config = arch::released_config();
  config.max_position_embeddings = 100;
  const auto plan = make_plan(config, "short", {});
  ASSERT_TRUE(plan.has_value()) << plan.error().describe();
  EXPECT_EQ(plan->context_tokens, 100u);
  EXPECT_EQ(plan->model->replay_hit + plan->model->replay_asked.new_tokens, 100u);
  EXPECT_EQ(plan->model->decode.size(), 1u);
  PlanRequest longer;
  longer.context_tokens = 101;
  EXPECT_EQ(make_plan(config, "short", longer).error().code, ErrorCode::kInvalidArgument);
}

TEST(Plan, AMixThatNoCheckpointStatesHasWindowsToo) {
  PlanRequest request;
  request.modes = "2xS,F4,3xU";
  const auto plan = make_plan(arch::released_config(), "mix", request);
  ASSERT_TRUE(plan.has_value()) << plan.error().describe();
  EXPECT_FALSE(plan->model.has_value());
  EXPECT_FALSE(plan->contexts.in_blocks.has_value());
  EXPECT_EQ(plan->design.sequence_bytes, 6 * 128 * 528u + 3 * 4096u + 12u);
  request.latent = 7;
  EXPECT_EQ(make_plan(arch::released_config(), "mix", request).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace thimble::planner
