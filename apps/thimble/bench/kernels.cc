#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/thimble/bench/commands.h"
#include "apps/thimble/bench/rotation.h"
#include "base/clock.h"
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

struct Measured {
  double us = 0;
  double read_gbps = 0;  // the roofs of the same moments
  double compute_gops = 0;
};

// What binds: bytes for few rows, operations for many.
double roof_share(const Measured& m, double bytes, double flops) {
  const double by_bytes = 1e-3 * bytes / m.us / m.read_gbps;
  const double by_ops = m.compute_gops > 0 ? 1e-3 * flops / m.us / m.compute_gops : 0;
  return std::max(by_bytes, by_ops);
}

double best_us(auto&& body) {
  constexpr int64_t kAtLeastUs = 60'000;
  double best = 1e30;
  const int64_t begun = base::monotonic_us();
  for (int run = 0; run < 3 || base::monotonic_us() - begun < kAtLeastUs; ++run) {
    const int64_t begin = base::monotonic_us();
    body();
    best = std::min(best, static_cast<double>(std::max<int64_t>(1, base::monotonic_us() - begin)));
  }
  return best;
}

// Products and roofs by turns, so that a busy machine slows both; the best of each.
Measured measure(const Case& c, const Rotation& weights, uint64_t n, kernels::Context context) {
  const std::vector<float> x = random_activations(n * c.inputs);
  std::vector<float> y(n * c.outputs);
  size_t turn = 0;
  Measured m;
  m.us = 1e30;
  for (int round = 0; round < 3; ++round) {
    const double us = best_us([&] {
      kernels::linear(weights.view(turn++), {x.data(), n, c.inputs}, {y.data(), n, c.outputs},
                      context);
    });
    m.us = std::min(m.us, us);
    m.read_gbps = std::max(m.read_gbps, weights.read_gbps(context.pool));
  }
  CHECK(std::isfinite(y[0]));
  return m;
}

struct Line {
  const Case& c;
  const char* layout;
  uint64_t n;
  uint32_t threads;
  double bytes;
  double flops;
  Measured m;
};

std::string table_row(const Line& line) {
  return fmt::format("  {:<12}{:<10}{:>6} x {:<6}{:>5}  {:<11}{:>10.1f}{:>9.1f}{:>10.1f}{:>8.2f}\n",
                     line.c.op, line.layout, line.c.outputs, line.c.inputs, line.n,
                     kernels::name(kernels::kernels()), line.m.us, 1e-3 * line.bytes / line.m.us,
                     1e-3 * line.flops / line.m.us, roof_share(line.m, line.bytes, line.flops));
}

std::string json_line(const Line& line) {
  nlohmann::ordered_json json = {{"op", line.c.op},
                                 {"layout", line.layout},
                                 {"shape", {line.c.outputs, line.c.inputs}},
                                 {"n", line.n},
                                 {"isa", kernels::name(kernels::kernels())},
                                 {"threads", line.threads},
                                 {"us", line.m.us},
                                 {"gbps", 1e-3 * line.bytes / line.m.us},
                                 {"gflops", 1e-3 * line.flops / line.m.us},
                                 {"dram_gbps", line.m.read_gbps},
                                 {"compute_gops", line.m.compute_gops},
                                 {"roof_share", roof_share(line.m, line.bytes, line.flops)}};
  return json.dump() + "\n";
}

// int8 products for FP4, float ones for the rest.
double compute_roof(const Case& c, const kernels::Roofs& roofs) {
  return c.format == WeightFormat::kFp4Group32 ? roofs.int8_gops : roofs.fma_gflops;
}

Result<void> run_case(const Case& c, const KernelsFlags& flags, const kernels::Roofs& roofs,
                      kernels::Context context) {
  const bool scaled = c.format != WeightFormat::kBF16;
  for (const char* layout : {"packed", "streamed"}) {
    const bool packed = std::string_view(layout) == "packed";
    if (packed && !scaled) continue;
    const auto weights = THIMBLE_TRY(Rotation::create(c.format, c.outputs, c.inputs, packed));
    for (const uint64_t n : c.rows) {
      Line line{c,
                layout,
                n,
                context.pool.size(),
                weights.bytes_each(),
                2.0 * static_cast<double>(n) * c.outputs * c.inputs,
                {}};
      line.m = measure(c, weights, n, context);
      line.m.compute_gops = compute_roof(c, roofs);
      print_out(flags.json ? json_line(line) : table_row(line));
    }
  }
  return {};
}

Result<int> run_kernels(const KernelsFlags& flags) {
  base::ThreadPool pool(flags.threads);
  kernels::Workspace workspace;
  const kernels::Context context{pool, workspace};
  for (const kernels::Table* table : kernels::runnable()) {
    if (!flags.isa.empty() ? flags.isa != kernels::name(*table)
                           : std::string_view(kernels::name(*table)) == "scalar") {
      continue;
    }
    const kernels::ScopedTable scope(*table);
    const auto roofs = THIMBLE_TRY(kernels::measure_roofs(pool));
    if (!flags.json) {
      print_out(fmt::format(
          "{}, {} threads: {:.1f} GB/s, {:.0f} Gop/s float32, {:.0f} int8 to 32 bits\n"
          "  {:<12}{:<10}{:>15}{:>5}  {:<11}{:>10}{:>9}{:>10}{:>8}\n",
          roofs.isa, roofs.threads, roofs.read_gbps, roofs.fma_gflops, roofs.int8_gops, "op",
          "layout", "outputs x inputs", "n", "isa", "us", "GB/s", "GFLOP/s", "of roof"));
    }
    for (const Case& c : cases()) {
      if (flags.op.empty() || flags.op == c.op) THIMBLE_TRY(run_case(c, flags, roofs, context));
    }
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
          "the roof is that of the resource that binds, measured by turns with the product.",
      .examples = {{"thimble bench kernels --op gemv_mxfp4", "one operation"},
                   {"thimble bench kernels --json", "one JSON object a line"}},
      .describe =
          [flags](Options& options) {
            options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
            options.add("--isa", flags->isa, "one instruction set; else all but scalar");
            options.add("--op", flags->op, "gemv_mxfp4, gemm_mxfp4, gemv_fp8, gemm_fp8, gemv_bf16");
            options.flag("--json", flags->json, "print JSON lines instead of a table");
          },
      .check = [flags] { return check_range("--threads", flags->threads, 0, engine::kThreadsMax); },
      .run = [flags] { return run_kernels(*flags); }};
}

}  // namespace thimble::app
