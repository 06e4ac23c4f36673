#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/thimble/bench/commands.h"
#include "apps/thimble/bench/compare.h"
#include "apps/thimble/bench/measure.h"
#include "apps/thimble/bench/rival.h"
#include "apps/thimble/bench/rotation.h"
#include "base/random.h"
#include "engine/engine.h"
#include "kernels/ops.h"
#include "kernels/packed.h"
#include "kernels/roofs.h"
#include "kernels/table.h"

namespace thimble::app {
namespace {

using kernels::WeightFormat;

struct KernelsFlags {
  uint32_t threads = 0;
  std::string isa;
  std::string op;
  std::vector<std::string> compare;  // two files
  Path rival;                        // folder; empty: kRivalFolder, if it is there
  bool json = false;
};

// A product of the released model: outputs x inputs.
struct Case {
  const char* op;
  WeightFormat format;
  uint32_t outputs;
  uint32_t inputs;
  std::vector<uint64_t> rows;  // of x
};

std::vector<Case> cases() {
  const std::vector<uint64_t> one = {1};
  const std::vector<uint64_t> many = {4, 8, 32, 128, 512};
  return {{"gemv_mxfp4", WeightFormat::kFp4Group32, 2304, 5120, one},
          {"gemv_mxfp4", WeightFormat::kFp4Group32, 5120, 2304, one},
          {"gemm_mxfp4", WeightFormat::kFp4Group32, 2304, 5120, many},
          {"gemm_mxfp4", WeightFormat::kFp4Group32, 5120, 2304, many},
          {"gemv_fp8", WeightFormat::kFp8Block32, 5120, 8192, one},
          {"gemv_fp8", WeightFormat::kFp8Block32, 32768, 1280, one},
          {"gemm_fp8", WeightFormat::kFp8Block32, 5120, 8192, many},
          {"gemv_bf16", WeightFormat::kBF16, 4096, 5120, one}};
}

Measured measure_product(const Case& c, const Rotation& weights, uint64_t n, RivalProduct* rival,
                         kernels::Context context) {
  const std::vector<float> x = random_activations(n * c.inputs);
  std::vector<float> y(n * c.outputs);
  const kernels::Burn burn =
      c.format == WeightFormat::kFp4Group32 ? kernels::Burn::kInt8 : kernels::Burn::kFma;
  const auto ours = [&](size_t turn) {
    kernels::linear(weights.view(turn), {x.data(), n, c.inputs}, {y.data(), n, c.outputs}, context);
  };
  std::function<void(size_t)> theirs;
  if (rival != nullptr) theirs = [=](size_t turn) { rival->run(turn); };
  const Measured m = measure(context.pool, burn, weights.memory(), ours, theirs);
  CHECK(std::isfinite(y[0]));
  return m;
}

struct Line {
  std::string op;
  std::string layout;
  std::string shape;  // as a person reads it
  std::vector<uint64_t> sizes;
  uint64_t n = 0;
  uint32_t threads = 0;
  double bytes = 0;
  double flops = 0;
  Measured m;
};

std::string table_row(const Line& line) {
  std::string out =
      fmt::format("  {:<12}{:<10}{:>20}{:>5}  {:<11}{:>10.1f}{:>9.1f}{:>10.1f}{:>8.2f}", line.op,
                  line.layout, line.shape, line.n, kernels::name(kernels::kernels()), line.m.us,
                  1e-3 * line.bytes / line.m.us, 1e-3 * line.flops / line.m.us,
                  roof_share(line.m, line.bytes, line.flops));
  if (line.m.rival_us > 0) {
    out += fmt::format("{:>11.1f}{:>7.2f}x", line.m.rival_us, line.m.rival_us / line.m.us);
  }
  return out + "\n";
}

std::string json_line(const Line& line) {
  nlohmann::ordered_json json = {{"op", line.op},
                                 {"layout", line.layout},
                                 {"shape", line.sizes},
                                 {"n", line.n},
                                 {"isa", kernels::name(kernels::kernels())},
                                 {"threads", line.threads},
                                 {"us", line.m.us},
                                 {"mean_us", line.m.mean_us},
                                 {"gbps", 1e-3 * line.bytes / line.m.us},
                                 {"gflops", 1e-3 * line.flops / line.m.us},
                                 {"dram_gbps", line.m.read_gbps},
                                 {"compute_gops", line.m.compute_gops},
                                 {"roof_share", roof_share(line.m, line.bytes, line.flops)},
                                 {"rival_us", nullptr}};
  if (line.m.rival_us > 0) json["rival_us"] = line.m.rival_us;
  return json.dump() + "\n";
}

void print(const Line& line, const KernelsFlags& flags) {
  print_out(flags.json ? json_line(line) : table_row(line));
}

// `rival` may be null. It is asked once a shape and n, beside the packed layout.
Result<void> run_case(const Case& c, const KernelsFlags& flags, Rival* rival,
                      kernels::Context context) {
  const bool scaled = c.format != WeightFormat::kBF16;
  for (const char* layout : {"packed", "streamed"}) {
    const bool packed = std::string_view(layout) == "packed";
    if (packed && !scaled) continue;
    const auto weights = THIMBLE_TRY(Rotation::create(c.format, c.outputs, c.inputs, packed));
    for (const uint64_t n : c.rows) {
      std::unique_ptr<RivalProduct> product;
      if (rival != nullptr && packed && c.format == WeightFormat::kFp4Group32) {
        product = THIMBLE_TRY(rival->product(c.outputs, c.inputs, n));
      }
      Line line{.op = c.op,
                .layout = layout,
                .shape = fmt::format("{} x {}", c.outputs, c.inputs),
                .sizes = {c.outputs, c.inputs},
                .n = n,
                .threads = context.pool.size(),
                .bytes = weights.bytes_each(),
                .flops = 2.0 * static_cast<double>(n) * c.outputs * c.inputs,
                .m = measure_product(c, weights, n, product.get(), context)};
      print(line, flags);
    }
  }
  return {};
}

// One query of the released model's 32 heads against keys of so many entries.
Result<void> run_index(uint64_t entries, const KernelsFlags& flags, kernels::Context context) {
  constexpr uint32_t kHeads = 32;
  constexpr uint32_t kDims = 128;
  constexpr uint32_t kTileBytes = 16 * 68;
  const uint64_t tiles = entries / 16;
  const uint64_t copies = std::max<uint64_t>(1, kRotatedBytes / (tiles * kTileBytes));
  const auto keys = THIMBLE_TRY(base::HugeMemory::create(copies * tiles * kTileBytes, "keys"));
  const std::span<std::byte> memory = keys.bytes();
  base::SplitMix64 random(3);
  for (size_t i = 0; i < memory.size(); ++i) {
    const bool scale = i % kTileBytes >= 1024;
    memory[i] = static_cast<std::byte>(scale ? 120 + random.below(8) : random.below(256));
  }
  std::vector<float> q = random_activations(kHeads * kDims);
  kernels::round_mxfp4(q);
  const std::vector<float> weights(kHeads, 0.1F);
  std::vector<int32_t> selected(512);
  Line line{.op = "index_score",
            .layout = "tiles",
            .shape = fmt::format("{} entries", entries),
            .sizes = {entries, kHeads, kDims},
            .n = 1,
            .threads = context.pool.size(),
            .bytes = static_cast<double>(entries) * 68,
            .flops = 2.0 * static_cast<double>(entries) * kHeads * kDims,
            .m = {}};
  line.m = measure(context.pool, kernels::Burn::kInt8, memory, [&](size_t turn) {
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
  print(line, flags);
  return {};
}

// Queries of the released model: 64 heads over a full window and 512 selected of 2^20 entries.
Result<void> run_attend(uint64_t n, const KernelsFlags& flags, kernels::Context context) {
  constexpr uint32_t kHeads = 64;
  constexpr uint32_t kDims = 512;
  constexpr uint32_t kWindow = 128;
  constexpr uint32_t kSelected = 512;
  constexpr uint64_t kEntries = 1 << 20;
  std::vector<std::byte> ring(kWindow * 528);
  const auto page = THIMBLE_TRY(base::HugeMemory::create(kEntries * 288, "entries"));
  base::SplitMix64 random(4);
  // Scales near one: with any byte for an exponent most rows would be subnormal, which costs some
  // CPUs a hundred cycles a product.
  for (size_t i = 0; i < ring.size(); ++i) {
    const bool scale = i % 528 >= kDims;
    ring[i] = static_cast<std::byte>(scale ? 120 + random.below(8) : random.below(0x78));
  }
  for (std::byte& code : page.bytes()) code = static_cast<std::byte>(random.below(0x78));
  kernels::Workspace memory;  // aligned, as a step's rows are
  const std::span<float> q = memory.take<float>(n * kHeads * kDims);
  std::ranges::copy(random_activations(q.size()), q.begin());
  const std::vector<float> sink(kHeads, 0.0F);
  std::vector<float> out(q.size());
  std::vector<int32_t> selected(kSelected);
  std::vector<kernels::AttendJob> jobs(n);
  std::byte* pages = page.data();
  Line line{.op = "attend",
            .layout = "rows",
            .shape = "64 heads, 128 + 512",
            .sizes = {kHeads, kDims, kWindow, kSelected},
            .n = n,
            .threads = context.pool.size(),
            .bytes = static_cast<double>(n) * (kWindow * 528 + kSelected * 288),
            .flops = 4.0 * static_cast<double>(n) * kHeads * kDims * (kWindow + kSelected),
            .m = {}};
  line.m = measure(context.pool, kernels::Burn::kFma, page.bytes(), [&](size_t turn) {
    for (uint32_t i = 0; i < kSelected; ++i) {
      selected[i] = static_cast<int32_t>((uint64_t{i} * 2048 + turn * 37 % 2048) % kEntries);
    }
    for (uint64_t i = 0; i < n; ++i) {
      jobs[i].q = &q[i * kHeads * kDims];
      jobs[i].out = &out[i * kHeads * kDims];
      jobs[i].window = {ring.data(), kWindow, 528, kDims, kernels::RowFormat::kWindowFp8};
      jobs[i].window_end = kWindow;
      jobs[i].main = {&pages, 0, kEntries, 288, kDims, kernels::RowFormat::kMainFp4};
      jobs[i].selected = selected;
    }
    kernels::attend(jobs, {kHeads, kDims, 0.044194F, sink.data()}, context);
  });
  CHECK(std::isfinite(out[0]));
  print(line, flags);
  return {};
}

// Null where none is installed and none was asked for.
Result<std::unique_ptr<Rival>> open_rival(const KernelsFlags& flags, const kernels::Table& table,
                                          uint32_t threads) {
  const Path folder = flags.rival.empty() ? Path(kRivalFolder) : flags.rival;
  if (flags.rival.empty() && !std::filesystem::exists(folder)) return nullptr;
  return Rival::open(folder, kernels::name(table), threads);
}

std::string table_head(const kernels::Roofs& roofs, const Rival* rival) {
  std::string out = fmt::format(
      "{}, {} threads: {:.1f} GB/s, {:.0f} Gop/s float32, {:.0f} int8 to 32 bits{}\n"
      "  {:<12}{:<10}{:>20}{:>5}  {:<11}{:>10}{:>9}{:>10}{:>8}",
      roofs.isa, roofs.threads, roofs.read_gbps, roofs.fma_gflops, roofs.int8_gops,
      rival == nullptr ? "" : fmt::format("; rival: ggml {}", rival->variant()), "op", "layout",
      "outputs x inputs", "n", "isa", "us", "GB/s", "GFLOP/s", "of roof");
  if (rival != nullptr) out += fmt::format("{:>11}{:>8}", "rival us", "faster");
  return out + "\n";
}

Result<void> run_table(const kernels::Table& table, const KernelsFlags& flags,
                       kernels::Context context) {
  const kernels::ScopedTable scope(table);
  const auto roofs = THIMBLE_TRY(kernels::measure_roofs(context.pool));
  const auto rival = THIMBLE_TRY(open_rival(flags, table, context.pool.size()));
  if (!flags.json) print_out(table_head(roofs, rival.get()));
  for (const Case& c : cases()) {
    if (!flags.op.empty() && flags.op != c.op) continue;
    THIMBLE_TRY(run_case(c, flags, rival.get(), context));
  }
  if (flags.op.empty() || flags.op == "attend") {
    for (const uint64_t n : {1, 16}) THIMBLE_TRY(run_attend(n, flags, context));
  }
  if (flags.op.empty() || flags.op == "index_score") {
    for (const uint64_t entries : {1 << 16, 1 << 20})
      THIMBLE_TRY(run_index(entries, flags, context));
  }
  return {};
}

// An unknown name is an error, not an empty table.
Result<void> check(const KernelsFlags& flags) {
  THIMBLE_TRY(check_range("--threads", flags.threads, 0, engine::kThreadsMax));
  if (flags.isa.empty()) return {};
  std::string names;
  for (const kernels::Table* table : kernels::runnable()) {
    if (flags.isa == kernels::name(*table)) return {};
    names += fmt::format(" {}", kernels::name(*table));
  }
  return base::fail(ErrorCode::kInvalidArgument, "--isa is {}; this CPU runs:{}", flags.isa, names);
}

Result<int> run_kernels(const KernelsFlags& flags) {
  if (!flags.compare.empty()) {
    print_out(THIMBLE_TRY(compare_runs(flags.compare[0], flags.compare[1])));
    return kExitDone;
  }
  base::ThreadPool pool(flags.threads);
  kernels::Workspace workspace;
  for (const kernels::Table* table : kernels::runnable()) {
    const std::string_view name = kernels::name(*table);
    const bool chosen = flags.isa.empty() ? name != "scalar" : name == flags.isa;
    if (chosen) THIMBLE_TRY(run_table(*table, flags, {pool, workspace}));
  }
  return kExitDone;
}

}  // namespace

Command bench_kernels_command() {
  auto flags = std::make_shared<KernelsFlags>();
  return {
      .name = "kernels",
      .summary = "Each operation at the released model's shapes, against the machine's roofs",
      .details =
          "Weights are rotated through at least 256 MB, so that no cache helps. The share of "
          "the roof is that of the resource that binds, measured by turns with the product. Where "
          "`scripts/rival.sh` has fetched ggml as npm ships it, its MXFP4 products of the same "
          "shapes run by turns with ours.",
      .examples = {{"thimble bench kernels --op gemv_mxfp4", "one operation"},
                   {"thimble bench kernels --json", "one JSON object a line"}},
      .describe =
          [flags](Options& options) {
            options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
            options.add("--isa", flags->isa, "one instruction set; else all but scalar");
            options.choice("--op", flags->op,
                           {"gemv_mxfp4", "gemm_mxfp4", "gemv_fp8", "gemm_fp8", "gemv_bf16",
                            "attend", "index_score"},
                           "one operation; else all");
            options.add("--rival", flags->rival,
                        "folder of ggml's libraries; else build/rival, if it is there");
            options.add("--compare", flags->compare, 2,
                        "two files of --json, side by side, instead of measuring");
            options.flag("--json", flags->json, "print JSON lines instead of a table");
          },
      .check = [flags] { return check(*flags); },
      .run = [flags] { return run_kernels(*flags); }};
}

}  // namespace thimble::app
