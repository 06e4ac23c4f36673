// Norms, rotations, routing, experts and Engram rows at the released model's shapes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/thimble/bench/kernel_cases.h"
#include "apps/thimble/bench/rotation.h"
#include "base/check.h"
#include "base/huge_memory.h"
#include "base/random.h"

namespace thimble::app {
namespace {

using kernels::Rows;
using kernels::WeightFormat;

constexpr uint32_t kHidden = 5120;
constexpr uint32_t kInner = 2304;
constexpr float kSwigluLimit = 10;

// So many float32 rows that a benchmark takes in turn, in sets of `rows`.
class RowSets {
 public:
  static Result<RowSets> create(uint64_t rows, uint64_t cols) {
    RowSets out;
    out.rows_ = rows;
    out.cols_ = cols;
    out.sets_ = 1 + kernels::uncached_bytes() / (rows * cols * sizeof(float));
    const uint64_t floats = out.sets_ * rows * cols;
    out.memory_ = THIMBLE_TRY(base::HugeMemory::create(floats * sizeof(float), "rows"));
    const std::vector<float> values = random_activations(cols);
    for (uint64_t i = 0; i < out.sets_ * rows; ++i) {
      std::ranges::copy(values, out.data() + i * cols);
    }
    return out;
  }
  Rows<float> set(size_t turn) const {
    return {data() + turn % sets_ * rows_ * cols_, rows_, cols_};
  }
  Bytes memory() const { return memory_.bytes(); }

 private:
  float* data() const { return reinterpret_cast<float*>(memory_.data()); }

  base::HugeMemory memory_;
  uint64_t rows_ = 0;
  uint64_t cols_ = 0;
  uint64_t sets_ = 0;
};

KernelLine line_of(const char* op, std::string shape, std::vector<uint64_t> sizes, uint64_t n,
                   const kernels::Context& context) {
  return {.op = op,
          .layout = "float32",
          .shape = std::move(shape),
          .sizes = std::move(sizes),
          .n = n,
          .threads = context.pool.size(),
          .work = {},
          .m = {}};
}

// In place: read and written once.
Result<KernelLine> run_rms_norm(uint64_t n, kernels::Context context) {
  const auto rows = THIMBLE_TRY(RowSets::create(n, kHidden));
  std::vector<std::byte> weight(2 * kHidden, std::byte{0x3F});
  KernelLine line = line_of("rms_norm", fmt::format("{}", kHidden), {kHidden}, n, context);
  line.work.bytes = 8.0 * static_cast<double>(n) * kHidden;
  line.work.flops = 4.0 * static_cast<double>(n) * kHidden;
  line.m = measure(context.pool, kernels::Burn::kFma, rows.memory(), line.work, [&](size_t turn) {
    const Rows<float> x = rows.set(turn);
    kernels::rms_norm(x, weight.data(), 1e-6F, x, context);
  });
  CHECK(std::isfinite(rows.set(0).data[0]));
  return line;
}

// 64 heads, of whose 512 dimensions the last 64 turn: those alone are read and written.
Result<KernelLine> run_rope(uint64_t n, kernels::Context context) {
  constexpr uint32_t kHeads = 64;
  constexpr uint32_t kDims = 512;
  constexpr uint32_t kPairs = 32;
  const auto rows = THIMBLE_TRY(RowSets::create(n, uint64_t{kHeads} * kDims));
  const std::vector<float> turns(n * kPairs, 0.7071F);
  KernelLine line = line_of("rope", fmt::format("{} heads x {}", kHeads, 2 * kPairs),
                            {kHeads, kDims, kPairs}, n, context);
  line.work.bytes = 8.0 * static_cast<double>(n) * kHeads * 2 * kPairs;
  line.work.flops = 6.0 * static_cast<double>(n) * kHeads * kPairs;
  line.m = measure(context.pool, kernels::Burn::kFma, rows.memory(), line.work, [&](size_t turn) {
    const Rows<const float> angles(turns.data(), n, kPairs);
    kernels::rope(rows.set(turn), kHeads, angles, angles, kernels::Rotation::kForward, context);
  });
  CHECK(std::isfinite(rows.set(0).data[kDims - 1]));
  return line;
}

// 6 of 384 experts, a row after another on one thread: counted are the logits' bytes.
Result<KernelLine> run_route(uint64_t n, kernels::Context context) {
  constexpr uint32_t kExperts = 384;
  constexpr uint32_t kActive = 6;
  const auto logits = THIMBLE_TRY(RowSets::create(n, kExperts));
  const std::vector<float> bias = random_activations(kExperts);
  std::vector<int32_t> ids(n * kActive);
  std::vector<float> weights(n * kActive);
  KernelLine line =
      line_of("route", fmt::format("{} of {}", kActive, kExperts), {kExperts, kActive}, n, context);
  line.threads = 1;
  line.work.bytes = 4.0 * static_cast<double>(n) * kExperts;
  line.m = measure(context.pool, kernels::Burn::kFma, logits.memory(), line.work, [&](size_t turn) {
    kernels::route(logits.set(turn), bias.data(), 1.5F, {ids.data(), n, kActive},
                   {weights.data(), n, kActive}, {nullptr, n, kExperts});
  });
  CHECK(std::isfinite(weights[0]));
  return line;
}

// The gate's rows are overwritten.
Result<KernelLine> run_swiglu(uint64_t n, kernels::Context context) {
  const auto rows = THIMBLE_TRY(RowSets::create(2 * n, kInner));
  KernelLine line = line_of("swiglu", fmt::format("{}", kInner), {kInner}, n, context);
  line.work.bytes = 12.0 * static_cast<double>(n) * kInner;
  line.work.flops = 20.0 * static_cast<double>(n) * kInner;
  line.m = measure(context.pool, kernels::Burn::kFma, rows.memory(), line.work, [&](size_t turn) {
    const Rows<float> gate = rows.set(turn).slice(0, n);
    kernels::swiglu(gate, rows.set(turn).slice(n, n), kSwigluLimit, nullptr, gate, context);
  });
  CHECK(std::isfinite(rows.set(0).data[0]));
  return line;
}

// A token's 24 rows of a table of 2^20, anywhere in it.
Result<KernelLine> run_engram(uint64_t n, kernels::Context context) {
  constexpr uint32_t kLookups = 24;
  constexpr uint32_t kDims = 256;
  constexpr uint64_t kTable = 1 << 20;
  const auto table = THIMBLE_TRY(base::HugeMemory::create(kTable * (kDims + kDims / 32), "table"));
  std::ranges::fill(table.bytes(), std::byte{0x38});
  std::fill_n(table.data() + kTable * kDims, kTable * kDims / 32, std::byte{127});
  constexpr size_t kTurns = 64;
  base::SplitMix64 random(5);
  std::vector<int64_t> ids(kTurns * n * kLookups);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.below(kTable));
  std::vector<float> out(n * kLookups * kDims);
  KernelLine line = line_of("engram_gather", fmt::format("{} x {}", kLookups, kDims),
                            {kLookups, kDims}, n, context);
  line.layout = "rows";
  line.work.bytes = static_cast<double>(n) * kLookups * (kDims + kDims / 32 + 4.0 * kDims);
  line.m = measure(context.pool, kernels::Burn::kFma, table.bytes(), line.work, [&](size_t turn) {
    kernels::engram_gather({table.data(), table.data() + kTable * kDims, kTable, kDims},
                           {&ids[turn % kTurns * n * kLookups], n, kLookups},
                           {out.data(), n, uint64_t{kLookups} * kDims}, context);
  });
  CHECK_EQ(out[0], 1.0F);
  return line;
}

// Which rows go to which of the resident experts: each row chooses 6 of 16.
struct Choices {
  static constexpr uint32_t kExperts = 16;
  static constexpr uint32_t kActive = 6;
  uint64_t rows[kExperts] = {};
  uint32_t used = 0;

  explicit Choices(uint64_t n) {
    base::SplitMix64 random(6);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t first = random.below(kExperts);
      for (uint32_t k = 0; k < kActive; ++k) ++rows[(first + k * 5) % kExperts];
    }
    for (const uint64_t count : rows) used += count > 0 ? 1 : 0;
  }
};

// Grouped experts, FP4: gate and up, SwiGLU, down, each one call for all experts.
Result<KernelLine> run_moe(uint64_t n, kernels::Context context) {
  const auto in = THIMBLE_TRY(Rotation::create(WeightFormat::kFp4Group32, kInner, kHidden, true));
  const auto out = THIMBLE_TRY(Rotation::create(WeightFormat::kFp4Group32, kHidden, kInner, true));
  const Choices choices(n);
  const uint64_t places = n * Choices::kActive;
  std::vector<float> x = random_activations(places * kHidden);
  std::vector<float> gate(places * kInner), up(gate.size()), y(x.size());
  KernelLine line =
      line_of("moe", fmt::format("{} of {} experts", Choices::kActive, Choices::kExperts),
              {Choices::kExperts, Choices::kActive, kInner, kHidden}, n, context);
  line.layout = "packed";
  line.work.bytes = choices.used * (2 * in.bytes_each() + out.bytes_each());
  line.work.flops = 3 * product_flops(places, kInner, kHidden);
  line.m = measure(context.pool, kernels::Burn::kInt8, in.memory(), line.work, [&](size_t turn) {
    std::vector<kernels::LinearJob> first, second;
    uint64_t at = 0;
    for (uint32_t e = 0; e < Choices::kExperts; ++e) {
      const uint64_t rows = choices.rows[e];
      if (rows == 0) continue;
      const size_t copy = turn * Choices::kExperts + e;
      const Rows<const float> mine(&x[at * kHidden], rows, kHidden);
      first.push_back({in.view(2 * copy), mine, {&gate[at * kInner], rows, kInner}});
      first.push_back({in.view(2 * copy + 1), mine, {&up[at * kInner], rows, kInner}});
      second.push_back(
          {out.view(copy), {&gate[at * kInner], rows, kInner}, {&y[at * kHidden], rows, kHidden}});
      at += rows;
    }
    kernels::linear_batch(first, context);
    const Rows<float> gates(gate.data(), places, kInner);
    kernels::swiglu(gates, {up.data(), places, kInner}, kSwigluLimit, nullptr, gates, context);
    kernels::linear_batch(second, context);
  });
  CHECK(std::isfinite(y[0]));
  return line;
}

}  // namespace

std::vector<KernelCase> row_cases() {
  return {{"moe", each_size({1, 8, 128}, run_moe)},
          {"rms_norm", each_size({1, 512}, run_rms_norm)},
          {"rope", each_size({1, 512}, run_rope)},
          {"swiglu", each_size({6, 3072}, run_swiglu)},
          {"route", each_size({1, 512}, run_route)},
          {"engram_gather", each_size({1, 512}, run_engram)}};
}

}  // namespace thimble::app
