#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/thimble/bench/commands.h"
#include "apps/thimble/bench/true_width.h"
#include "apps/thimble/mode_flag.h"
#include "arch/cache_layout.h"
#include "base/terminal.h"
#include "engine/engine.h"
#include "engine/forced_run.h"
#include "kernels/table.h"
#include "planner/flops.h"
#include "planner/traffic.h"

namespace thimble::app {
namespace {

constexpr uint64_t kDecoded = arch::kWindowSlackRows;  // tokens timed at each length, and undone

struct ContextFlags {
  uint32_t experts = 8;
  uint32_t threads = 0;
  uint64_t longest = 1 << 20;
  std::string mode = "fast";
  bool json = false;
};

// A decode step of all layers of the released model at one length of context.
struct Point {
  uint64_t tokens = 0;
  double ms = 0;
  double bytes = 0;
  double weight_bytes = 0;
  planner::Ops ops;
};

void print_header() {
  print_out(fmt::format("{:>10}{:>12}{:>9}{:>16}{:>14}{:>14}{:>9}\n", "context", "step, ms",
                        "growth", "cache read, MB", "all read, MB", "ops, 10^9", "growth"));
}

void print(const Point& p, const Point& first, bool json) {
  const double growth = p.ms / first.ms;
  const double ops_growth = p.ops.weighted() / first.ops.weighted();
  if (json) {
    const nlohmann::ordered_json line = {{"tokens", p.tokens},
                                         {"isa", kernels::name(kernels::kernels())},
                                         {"step_ms", p.ms},
                                         {"growth", growth},
                                         {"cache_bytes", p.bytes - p.weight_bytes},
                                         {"bytes", p.bytes},
                                         {"operations", p.ops.total()},
                                         {"weighted_operations", p.ops.weighted()},
                                         {"operations_growth", ops_growth}};
    print_out(line.dump() + "\n");
    return;
  }
  print_out(fmt::format("{:>10}{:>12.2f}{:>9.3f}{:>16.2f}{:>14.1f}{:>14.2f}{:>9.3f}\n", p.tokens,
                        p.ms, growth, 1e-6 * (p.bytes - p.weight_bytes), 1e-6 * p.bytes,
                        1e-9 * p.ops.total(), ops_growth));
}

Result<int> run_context(const ContextFlags& flags) {
  const auto bench = THIMBLE_TRY(BenchModel::make({}, flags.experts, mode_of(flags.mode)));
  const model::Model& model = bench->model();
  const arch::Config released = arch::released_config();
  const planner::FlopsModel flops(released);
  base::ThreadPool pool(flags.threads);
  auto sequence =
      THIMBLE_TRY(engine::ForcedSequence::create(model, flags.longest + kDecoded, pool));
  const std::vector<int32_t> ids = random_ids(model, flags.longest + kDecoded);
  if (!flags.json) print_header();
  Point first;
  for (uint64_t tokens = 4096; tokens <= flags.longest; tokens *= 4) {
    const uint64_t held = sequence.state().position;
    THIMBLE_TRY(sequence.append_random(std::span(ids).subspan(held, tokens - held), tokens));
    const model::SequenceState before = sequence.state();
    const auto us =
        THIMBLE_TRY(decode_us(sequence, model, std::span(ids).subspan(tokens, kDecoded)));
    THIMBLE_TRY(sequence.reject(before));
    Point p;
    p.tokens = tokens;
    p.ms = 1e-3 * whole_us(flops.plan(), model.plan(), us);
    const auto traffic = planner::decode_traffic(released, tokens);
    p.weight_bytes = traffic.weight_bytes();
    p.bytes = p.weight_bytes + traffic.cache_bytes();
    p.ops = planner::sum(flops.decode(tokens));
    if (tokens == 4096) first = p;
    print(p, first, flags.json);
  }
  return kExitDone;
}

}  // namespace

Command bench_context_command() {
  auto flags = std::make_shared<ContextFlags>();
  return {
      .name = "context",
      .summary = "What a longer context costs a decoded token",
      .details =
          "Times one layer of each role at the released model's widths (random weights, a few "
          "experts, 2 GB in a folder that goes afterwards) while a token is decoded behind 4K, "
          "16K, ... tokens of random entries, and adds the times up over the released model's "
          "40 layers, Engram and the head left out. Beside it, by arithmetic: bytes that such a "
          "token reads in the whole model, and its operations; their growth counts FP8 at a "
          "half and FP4 at a quarter, as the published figure does.",
      .examples = {{"thimble bench context", "4K to 1M tokens"},
                   {"thimble bench context --longest 65536 --json", "JSON lines"}},
      .describe =
          [flags](Options& options) {
            options.add("--longest", flags->longest, "longest context, tokens");
            options.add("--experts", flags->experts, "routed experts of a layer");
            options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
            options.choice("--mode", flags->mode, {"fast", "exact"}, "arithmetic");
            options.flag("--json", flags->json, "print JSON lines");
          },
      .check = [flags]() -> Result<void> {
        THIMBLE_TRY(check_range("--longest", flags->longest, 4096, 1 << 20));
        THIMBLE_TRY(check_range("--experts", flags->experts, 6, 384));
        return check_range("--threads", flags->threads, 0, engine::kThreadsMax);
      },
      .run = [flags] { return run_context(*flags); }};
}

}  // namespace thimble::app
