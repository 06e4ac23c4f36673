#include "apps/thimble/bench/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "apps/thimble/bench/rotation.h"
#include "base/check.h"
#include "base/huge_memory.h"
#include "base/random.h"

namespace thimble::app {
namespace {

// Tiles of normal values rounded to MXFP4; few different ones, over and over. uneven: each group
// has a power of two of its own, so that scales lie too far apart to be levelled.
void fill_with_keys(std::span<std::byte> memory, uint64_t tile_bytes, uint32_t dims, bool uneven) {
  const std::span<std::byte> first = memory.first(std::min(memory.size(), tile_bytes * 256));
  base::SplitMix64 random(3);
  std::vector<float> row(dims);
  for (uint64_t e = 0; e < first.size() / tile_bytes * kernels::kTileRows; ++e) {
    int exponent = 0;
    for (uint32_t d = 0; d < dims; ++d) {
      if (uneven && d % 32 == 0) exponent = static_cast<int>(random.below(8));
      row[d] = std::ldexp(static_cast<float>(random.normal()), exponent);
    }
    kernels::write_tile_entry(kernels::TileFormat::kMxfp4, row,
                              &first[e / kernels::kTileRows * tile_bytes],
                              static_cast<uint32_t>(e % kernels::kTileRows));
  }
  for (size_t at = first.size(); at < memory.size(); at += first.size()) {
    const size_t bytes = std::min(first.size(), memory.size() - at);
    std::memcpy(&memory[at], first.data(), bytes);
  }
}

// One query of the released model's 32 heads against keys of so many entries.
template <bool kUneven>
Result<KernelLine> run_index(uint64_t entries, kernels::Context context) {
  constexpr uint32_t kHeads = 32;
  constexpr uint32_t kDims = 128;
  constexpr uint32_t kTileBytes = 16 * 68;
  const uint64_t tiles = entries / 16;
  const uint64_t copies = 1 + kernels::uncached_bytes() / (tiles * kTileBytes);
  const auto keys = THIMBLE_TRY(base::HugeMemory::create(copies * tiles * kTileBytes, "keys"));
  const std::span<std::byte> memory = keys.bytes();
  fill_with_keys(memory, kTileBytes, kDims, kUneven);
  std::vector<float> q = random_activations(kHeads * kDims);
  kernels::round_mxfp4(q);
  const std::vector<float> weights(kHeads, 0.1F);
  std::vector<int32_t> selected(512);
  KernelLine line{.op = "index_score",
                  .layout = kUneven ? "uneven" : "tiles",
                  .shape = fmt::format("{} entries", entries),
                  .sizes = {entries, kHeads, kDims},
                  .n = 1,
                  .threads = context.pool.size(),
                  .work = {.bytes = static_cast<double>(entries) * 68,
                           .flops = 2.0 * static_cast<double>(entries) * kHeads * kDims},
                  .m = {}};
  line.m = measure(context.pool, kernels::Burn::kInt8, memory, line.work, [&](size_t turn) {
    std::byte* pages = &memory[turn % copies * tiles * kTileBytes];
    kernels::SelectJob job;
    job.q = q.data();
    job.head_weights = weights.data();
    job.keys = {&pages,     0,     static_cast<uint32_t>(tiles),
                kTileBytes, kDims, kernels::TileFormat::kMxfp4};
    job.visible = entries;
    job.selected = selected.data();
    kernels::index_select({&job, 1}, {kHeads, kDims, 512, 0, 0}, context);
  });
  CHECK(selected.back() >= 0);
  return line;
}

// Queries of the released model: 64 heads over a full window and 512 selected of 2^20 entries.
Result<KernelLine> run_attend(uint64_t n, kernels::Context context) {
  constexpr uint32_t kHeads = 64;
  constexpr uint32_t kDims = 512;
  constexpr uint32_t kWindow = 128;
  constexpr uint32_t kRingRow = 528;
  constexpr uint32_t kPairs = 32;
  constexpr uint32_t kSelected = 512;
  constexpr uint64_t kEntries = 1 << 20;
  std::vector<std::byte> rings(n * kWindow * kRingRow);
  const auto page = THIMBLE_TRY(base::HugeMemory::create(kEntries * 288, "entries"));
  base::SplitMix64 random(4);
  // Scales near one: with any byte for an exponent most rows would be subnormal, which costs some
  // CPUs a hundred cycles a product.
  for (size_t i = 0; i < rings.size(); ++i) {
    const bool scale = i % kRingRow >= kDims;
    rings[i] = static_cast<std::byte>(scale ? 120 + random.below(8) : random.below(0x78));
  }
  for (std::byte& code : page.bytes()) code = static_cast<std::byte>(random.below(0x78));
  kernels::Workspace memory;  // aligned, as a step's rows are
  const std::span<float> q = memory.take<float>(n * kHeads * kDims);
  std::ranges::copy(random_activations(q.size()), q.begin());
  const std::vector<float> sink(kHeads, 0.0F);
  const std::vector<float> turn_back(kPairs, 0.7071F);
  std::vector<float> out(q.size());
  std::vector<int32_t> selected(n * kSelected);
  std::vector<kernels::AttendJob> jobs(n);
  std::byte* pages = page.data();
  KernelLine line{
      .op = "attend",
      .layout = "rows",
      .shape = "64 heads, 128 + 512",
      .sizes = {kHeads, kDims, kWindow, kSelected},
      .n = n,
      .threads = context.pool.size(),
      .work = {.bytes = static_cast<double>(n) * (kWindow * kRingRow + kSelected * 288),
               .flops = 4.0 * static_cast<double>(n) * kHeads * kDims * (kWindow + kSelected)},
      .m = {}};
  line.m = measure(context.pool, kernels::Burn::kFma, page.bytes(), line.work, [&](size_t turn) {
    for (uint64_t i = 0; i < n * kSelected; ++i) {
      const uint64_t entry = i % kSelected * 2048 + (turn * n + i / kSelected) * 37 % 2048;
      selected[i] = static_cast<int32_t>(entry % kEntries);
    }
    for (uint64_t i = 0; i < n; ++i) {
      jobs[i].q = &q[i * kHeads * kDims];
      jobs[i].out = &out[i * kHeads * kDims];
      jobs[i].window = {&rings[i * kWindow * kRingRow], kWindow, kRingRow, kDims,
                        kernels::RowFormat::kWindowFp8};
      jobs[i].window_end = kWindow;
      jobs[i].main = {&pages, 0, kEntries, 288, kDims, kernels::RowFormat::kMainFp4};
      jobs[i].cos = turn_back.data();
      jobs[i].sin = turn_back.data();
      jobs[i].selected = std::span(selected).subspan(i * kSelected, kSelected);
    }
    kernels::attend(jobs, {kHeads, kDims, 0.044194F, sink.data(), kPairs}, context);
  });
  CHECK(std::isfinite(out[0]));
  return line;
}

// The turn between two sublayers of the released model's four copies. The least traffic: the stream
// read and written, the input written, the output read.
Result<KernelLine> run_mhc(uint64_t n, kernels::Context context) {
  constexpr uint32_t kCopies = 4;
  constexpr uint32_t kHidden = 5120;
  constexpr uint32_t kWidth = kCopies * kHidden;
  constexpr uint32_t kMixes = (2 + kCopies) * kCopies;
  const uint64_t turn_floats = uint64_t{kMixes} * kWidth + n * (kWidth + 2 * kHidden);
  const uint64_t copies = 1 + kernels::uncached_bytes() / (turn_floats * sizeof(float));
  const auto memory = THIMBLE_TRY(
      base::HugeMemory::create(copies * turn_floats * sizeof(float), "hyper-connections"));
  auto* const floats = reinterpret_cast<float*>(memory.data());
  const std::vector<float> values = random_activations(turn_floats);
  for (uint64_t i = 0; i < copies; ++i) std::ranges::copy(values, floats + i * turn_floats);
  const std::vector<float> base(kMixes, 0.1F);
  const std::vector<float> scale(3, 0.01F);
  constexpr uint64_t kMixed = kCopies * (2 + kCopies);  // of a row: pre, post and comb
  std::vector<float> mixed(2 * n * kMixed, 0.25F);
  const auto mix_at = [&](uint64_t i) -> kernels::HcMix {
    float* const pre = mixed.data() + i * n * kMixed;
    float* const post = pre + n * kCopies;
    return {{pre, n, kCopies}, {post, n, kCopies}, {post + n * kCopies, n, kCopies * kCopies}};
  };
  const kernels::HcMix spread = mix_at(0);
  const kernels::HcMix mix = mix_at(1);
  KernelLine line{
      .op = "mhc",
      .layout = "float32",
      .shape = fmt::format("{} x {}", kCopies, kHidden),
      .sizes = {kCopies, kHidden},
      .n = n,
      .threads = context.pool.size(),
      .work = {.bytes = 4.0 * (double{kMixes} * kWidth +
                               static_cast<double>(n) * (2 * kCopies + 2) * kHidden),
               .flops = 2.0 * static_cast<double>(n) * kWidth * (kMixes + 1 + kCopies + 1)},
      .m = {}};
  line.m = measure(context.pool, kernels::Burn::kFma, memory.bytes(), line.work, [&](size_t turn) {
    float* const fn = floats + turn % copies * turn_floats;
    const kernels::Rows<float> stream(fn + uint64_t{kMixes} * kWidth, n, kWidth);
    const kernels::Rows<float> x(stream.data + n * kWidth, n, kHidden);
    const kernels::Rows<float> y(x.data + n * kHidden, n, kHidden);
    const kernels::HcWeights weights = {fn, scale.data(), base.data(), kCopies, 20, 1e-6F, 1e-6F};
    kernels::hc_turn({stream, y, spread, weights, mix, spread.pre, x}, context);
  });
  CHECK(std::isfinite(mix.pre.data[0]));
  return line;
}

}  // namespace

KernelCase::Run each_size(std::vector<uint64_t> sizes,
                          Result<KernelLine> (*run)(uint64_t, kernels::Context)) {
  return [=](kernels::Context context) -> Result<std::vector<KernelLine>> {
    std::vector<KernelLine> lines;
    for (const uint64_t size : sizes) lines.push_back(THIMBLE_TRY(run(size, context)));
    return lines;
  };
}

std::vector<KernelCase> cache_cases() {
  return {{"attend", each_size({1, 16}, run_attend)},
          {"index_score", each_size({1 << 16, 1 << 20}, run_index<false>)},
          {"index_score", each_size({1 << 20}, run_index<true>)},
          {"mhc", each_size({1, 8, 512}, run_mhc)}};
}

}  // namespace thimble::app
