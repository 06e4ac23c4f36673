#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/thimble/bench/commands.h"
#include "apps/thimble/bench/isa_flag.h"
#include "apps/thimble/bench/true_width.h"
#include "apps/thimble/mode_flag.h"
#include "base/terminal.h"
#include "engine/engine.h"
#include "engine/forced_run.h"
#include "kernels/roofs.h"
#include "kernels/table.h"
#include "planner/flops.h"
#include "planner/traffic.h"

namespace thimble::app {
namespace {

constexpr uint64_t kPromptRows = 512;
constexpr uint64_t kDecoded = 24;

struct LayerFlags {
  Path model;
  uint32_t experts = 8;
  uint32_t threads = 0;
  std::string mode = "fast";
  std::string isa;
  bool json = false;
};

struct LayerTimes {
  std::vector<double> prefill_us;  // [layers] a token
  std::vector<double> decode_us;   // [layers] the best
};

Result<LayerTimes> time_layers(const model::Model& model, base::ThreadPool& pool) {
  const size_t layers = model.plan().layers.size();
  const std::vector<int32_t> ids = random_ids(model, 3 * kPromptRows + kDecoded);
  auto sequence = THIMBLE_TRY(engine::ForcedSequence::create(model, ids.size(), pool));
  LayerTimes times{std::vector<double>(layers, 1e30), {}};
  LayerClock clock(layers);
  engine::ForcedRun run;
  run.trace = &clock;
  const std::span<const int32_t> all = ids;
  for (int chunk = 0; chunk < 3; ++chunk) {  // the first warms up
    THIMBLE_TRY(sequence.run(all.subspan(chunk * kPromptRows, kPromptRows), run, {}));
    for (size_t l = 0; l < layers && chunk > 0; ++l) {
      times.prefill_us[l] = std::min(times.prefill_us[l], clock.layer_us(l) / kPromptRows);
    }
  }
  times.decode_us = THIMBLE_TRY(decode_us(sequence, model, all.last(kDecoded)));
  return times;
}

// One line a role: the first layer that has it. A decoded token's bytes are the planner's.
void print_times(const model::Model& model, const LayerTimes& times, double dram_gbps, bool json) {
  const planner::FlopsModel flops(model.config());
  const std::vector<double> bytes = planner::layer_traffic(model.config(), 3 * kPromptRows);
  if (!json) {
    print_out(fmt::format("{:<40}{:>12}{:>10}{:>9}{:>11}{:>23}\n", "role", "decode, ms", "MB",
                          "GB/s", "of memory", "prefill 512, ms/token"));
  }
  for (const planner::RoleCost& role : flops.roles()) {
    const uint32_t layer = role.first_layer;
    const double decode = 1e-3 * times.decode_us[layer];
    const double prefill = 1e-3 * times.prefill_us[layer];
    const double gbps = 1e-3 * bytes[layer] / times.decode_us[layer];
    if (json) {
      const nlohmann::ordered_json line = {
          {"role", role.role},      {"isa", kernels::name(kernels::kernels())},
          {"decode_ms", decode},    {"prefill_ms_per_token", prefill},
          {"bytes", bytes[layer]},  {"gbps", gbps},
          {"dram_gbps", dram_gbps}, {"roof_share", gbps / dram_gbps}};
      print_out(line.dump() + "\n");
    } else {
      print_out(fmt::format("{:<40}{:>12.3f}{:>10.1f}{:>9.1f}{:>11.2f}{:>23.4f}\n", role.role,
                            decode, 1e-6 * bytes[layer], gbps, gbps / dram_gbps, prefill));
    }
  }
}

Result<int> run_layer(const LayerFlags& flags) {
  const kernels::ScopedTable scope(flags.isa.empty() ? kernels::kernels()
                                                     : *kernels::find_table(flags.isa));
  const auto bench = THIMBLE_TRY(BenchModel::make(flags.model, flags.experts, mode_of(flags.mode)));
  const model::Model& model = bench->model();
  base::ThreadPool pool(flags.threads);
  // Before and after the layers: the best, as their times are.
  const auto before = THIMBLE_TRY(kernels::measure_roofs(pool));
  const auto times = THIMBLE_TRY(time_layers(model, pool));
  const auto after = THIMBLE_TRY(kernels::measure_roofs(pool));
  print_times(model, times, std::max(before.read_gbps, after.read_gbps), flags.json);
  return kExitDone;
}

}  // namespace

Command bench_layer_command() {
  auto flags = std::make_shared<LayerFlags>();
  return {.name = "layer",
          .summary = "One layer of each role at the released model's widths",
          .details =
              "Makes a checkpoint of random weights with a few experts a layer (2 GB in a folder "
              "that goes afterwards), or takes a model, and times every layer within a whole pass: "
              "one token, and 512 of a prompt, at a context of 1,500 tokens. Beside them: what the "
              "token reads of the layer, by the planner, and how much of it memory could give, "
              "measured before and after.",
          .examples = {{"thimble bench layer", "8 experts a layer"},
                       {"thimble bench layer --model DIR", "the layers of a model"}},
          .describe =
              [flags](Options& options) {
                options.add("--model", flags->model, "a model directory; else layers are made");
                options.add("--experts", flags->experts, "routed experts of a made layer");
                options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
                options.choice("--mode", flags->mode, {"fast", "exact"}, "arithmetic");
                options.add("--isa", flags->isa, "instruction set; else the best");
                options.flag("--json", flags->json, "print JSON lines");
              },
          .check = [flags]() -> Result<void> {
            THIMBLE_TRY(check_range("--experts", flags->experts, 6, 384));
            THIMBLE_TRY(check_range("--threads", flags->threads, 0, engine::kThreadsMax));
            return check_isa(flags->isa);
          },
          .run = [flags] { return run_layer(*flags); }};
}

}  // namespace thimble::app
