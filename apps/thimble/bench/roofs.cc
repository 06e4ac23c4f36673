#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/thimble/bench/commands.h"
#include "engine/engine.h"
#include "kernels/roofs.h"
#include "kernels/table.h"

namespace thimble::app {
namespace {

struct RoofsFlags {
  uint32_t threads = 0;
  bool json = false;
};

// One figure: what was done, and how fast.
struct Figure {
  const char* op;
  const char* what;
  double kernels::Roofs::*value;
  const char* unit;
};

constexpr Figure kFigures[] = {
    {"dram_read", "read from memory", &kernels::Roofs::read_gbps, "gbps"},
    {"fma_f32", "float32 multiply-add", &kernels::Roofs::fma_gflops, "gflops"},
    {"madd_int8", "int8 multiply-add to 32 bits", &kernels::Roofs::int8_gops, "gops"},
    {"madd_int8_sat", "int8 multiply-add to 16 bits", &kernels::Roofs::int8_sat_gops, "gops"}};

std::string text(const kernels::Roofs& roofs) {
  std::string out = fmt::format("{}, {} threads\n", roofs.isa, roofs.threads);
  for (const Figure& figure : kFigures) {
    const bool bytes = std::string_view(figure.unit) == "gbps";
    out += fmt::format("  {:<30}{:>10.1f} {}\n", figure.what, roofs.*figure.value,
                       bytes ? "GB/s" : "Gop/s");
  }
  return out;
}

std::string json_lines(const kernels::Roofs& roofs) {
  std::string out;
  for (const Figure& figure : kFigures) {
    nlohmann::ordered_json line = {{"op", figure.op},
                                   {figure.unit, roofs.*figure.value},
                                   {"isa", roofs.isa},
                                   {"threads", roofs.threads}};
    out += line.dump() + "\n";
  }
  return out;
}

Result<int> run_roofs(const RoofsFlags& flags) {
  base::ThreadPool pool(flags.threads);
  for (const kernels::Table* table : kernels::runnable()) {
    const kernels::ScopedTable scope(*table);
    const auto roofs = THIMBLE_TRY(kernels::measure_roofs(pool));
    print_out(flags.json ? json_lines(roofs) : text(roofs));
  }
  return kExitDone;
}

}  // namespace

Command bench_roofs_command() {
  auto flags = std::make_shared<RoofsFlags>();
  return {
      .name = "roofs",
      .summary = "What this machine can do at most",
      .details =
          "Reads a buffer larger than every cache and multiplies in registers, on every "
          "instruction set there is. `thimble plan --this-machine` plans with these figures.",
      .examples = {{"thimble bench roofs --json", "one JSON object a line"}},
      .describe =
          [flags](Options& options) {
            options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
            options.flag("--json", flags->json, "print JSON lines instead of a table");
          },
      .check = [flags] { return check_range("--threads", flags->threads, 0, engine::kThreadsMax); },
      .run = [flags] { return run_roofs(*flags); }};
}

}  // namespace thimble::app
