#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/thimble/bench/commands.h"
#include "apps/thimble/bench/compare.h"
#include "apps/thimble/bench/isa_flag.h"
#include "apps/thimble/bench/kernel_cases.h"
#include "apps/thimble/bench/product_check.h"
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
          {"gemv_bf16", WeightFormat::kBF16, 129280, 5120, one},
          {"gemm_bf16", WeightFormat::kBF16, 129280, 5120, {8}}};
}

std::vector<KernelCase> other_cases() {
  std::vector<KernelCase> out = cache_cases();
  std::ranges::move(row_cases(), std::back_inserter(out));
  return out;
}

// In the order of the table, each once.
std::vector<std::string> op_names() {
  std::vector<std::string> names;
  const auto add = [&](std::string_view op) {
    if (names.empty() || names.back() != op) names.emplace_back(op);
  };
  for (const Case& c : cases()) add(c.op);
  for (const KernelCase& c : other_cases()) add(c.op);
  return names;
}

Result<Measured> measure_product(const Case& c, const Rotation& weights, uint64_t n,
                                 const Work& work, RivalProduct* rival, kernels::Context context) {
  const std::vector<float> x = random_activations(n * c.inputs);
  std::vector<float> y(n * c.outputs);
  const kernels::Burn burn =
      c.format == WeightFormat::kFp4Group32 ? kernels::Burn::kInt8 : kernels::Burn::kFma;
  const auto ours = [&](size_t turn) {
    kernels::linear(weights.view(turn), {x.data(), n, c.inputs}, {y.data(), n, c.outputs}, context);
  };
  ours(0);
  THIMBLE_TRY(check_product(weights.plain(), {x.data(), n, c.inputs}, {y.data(), n, c.outputs}));
  return measure(context.pool, burn, weights.memory(), work, ours, rival);
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
      const Work work = {.bytes = weights.bytes_each(),
                         .flops = product_flops(n, c.outputs, c.inputs)};
      KernelLine line{.op = c.op,
                      .layout = layout,
                      .shape = fmt::format("{} x {}", c.outputs, c.inputs),
                      .sizes = {c.outputs, c.inputs},
                      .n = n,
                      .threads = context.pool.size(),
                      .work = work,
                      .m = {}};
      line.m = THIMBLE_TRY(measure_product(c, weights, n, work, product.get(), context));
      print_line(line, flags.json);
    }
  }
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
      "  {:<14}{:<10}{:>20}{:>5}  {:<11}{:>10}{:>9}{:>10}{:>8}",
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
  for (const KernelCase& c : other_cases()) {
    if (!flags.op.empty() && flags.op != c.op) continue;
    for (const KernelLine& line : THIMBLE_TRY(c.run(context))) print_line(line, flags.json);
  }
  return {};
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
          "Weights are rotated through more than caches hold. The share of "
          "the roof is that of the resource that binds, measured by turns with the product. Where "
          "`scripts/rival.sh` has fetched ggml as npm ships it, its MXFP4 products of the same "
          "shapes run by turns with ours.",
      .examples = {{"thimble bench kernels --op gemv_mxfp4", "one operation"},
                   {"thimble bench kernels --json", "one JSON object a line"}},
      .describe =
          [flags](Options& options) {
            options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
            options.add("--isa", flags->isa, "one instruction set; else all but scalar");
            options.choice("--op", flags->op, op_names(), "one operation; else all");
            options.add("--rival", flags->rival,
                        "folder of ggml's libraries; else build/rival, if it is there");
            options.add("--compare", flags->compare, 2,
                        "two files of --json, side by side, instead of measuring");
            options.flag("--json", flags->json, "print JSON lines instead of a table");
            options.exclusive({"--compare", "--json"});
          },
      .check = [flags]() -> Result<void> {
        THIMBLE_TRY(check_range("--threads", flags->threads, 0, engine::kThreadsMax));
        return check_isa(flags->isa);
      },
      .run = [flags] { return run_kernels(*flags); }};
}

}  // namespace thimble::app
