#include <fmt/format.h>

#include <variant>

#include "apps/thimble/commands.h"
#include "arch/config.h"
#include "base/available_memory.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "kernels/roofs.h"
#include "planner/plan.h"

namespace thimble::app {
namespace {

struct PlanFlags {
  std::string config = "released";
  bool json = false;
  bool list_machines = false;
  bool this_machine = false;
  Path charts;
  std::vector<std::optional<std::string>> fields;  // as planner::plan_fields()
};

// A file, a model directory, the built-in configuration or an older generation.
Result<planner::PlanSubject> subject_of(const std::string& config) {
  std::error_code ignored;
  if (std::filesystem::is_directory(config, ignored)) {
    return planner::PlanSubject(THIMBLE_TRY(arch::load_config(Path(config) / "config.json")));
  }
  if (std::filesystem::exists(config, ignored)) {
    return planner::PlanSubject(THIMBLE_TRY(arch::load_config(config)));
  }
  if (config == "released") return planner::PlanSubject(arch::released_config());
  std::string names;
  for (const planner::CacheDesign& design : planner::generations()) {
    if (design.id == config) return planner::PlanSubject(design);
    names += (names.empty() ? "" : ", ") + design.id;
  }
  return base::fail(ErrorCode::kNotFound,
                    "{} is no file, expected a config.json, a model directory or one of {}", config,
                    names);
}

Result<planner::PlanRequest> request_of(const PlanFlags& flags) {
  planner::PlanRequest request;
  const auto fields = planner::plan_fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (flags.fields[i]) THIMBLE_TRY(planner::set_field(request, fields[i].name, *flags.fields[i]));
  }
  return request;
}

// What memory and processors reach here; the disk stays the preset's, for want of a file to read.
Result<planner::Machine> measured_machine(const planner::PlanRequest& request) {
  base::ThreadPool pool;
  const auto roofs = THIMBLE_TRY(kernels::measure_roofs(pool));
  planner::Machine machine = THIMBLE_TRY(planner::find_machine(request.machine));
  machine.what = fmt::format("this machine, {} threads of {}; the disk is that of `{}`",
                             roofs.threads, roofs.isa, machine.name);
  machine.name = "this machine";
  machine.ram_bytes = base::available_memory().bytes;
  machine.cpu = {roofs.read_gbps, roofs.fma_gflops, roofs.int8_gops, roofs.int8_gops};
  machine.gpu_bytes = 0;
  return machine;
}

std::string machines_text() {
  std::string out;
  for (const planner::Machine& m : planner::machine_presets()) {
    out += fmt::format(
        "{:<14}{}: {} at {:g} GB/s, {:g}/{:g}/{:g} GFLOP/s BF16/FP8/FP4, disk {} "
        "at {:g} GB/s\n",
        m.name, m.what, base::human_bytes(m.ram_bytes), m.cpu.memory_gbps, m.cpu.bf16_gflops,
        m.cpu.fp8_gflops, m.cpu.fp4_gflops, base::human_bytes(m.ssd_bytes), m.ssd_gbps);
  }
  return out;
}

Result<void> write_charts(const planner::Plan& plan, const Path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return base::fail(ErrorCode::kIo, "{}: cannot be made a directory: {}", directory.string(),
                      error.message());
  }
  for (const planner::Chart& chart : planner::charts(plan)) {
    const Path file = directory / (std::string(chart.name) + ".svg");
    THIMBLE_TRY(base::write_file_atomic(file, chart.picture));
    fmt::print(stderr, "{}\n", file.string());
  }
  return {};
}

Result<int> run_plan(const PlanFlags& flags) {
  if (flags.list_machines) {
    print_out(machines_text());
    return kExitDone;
  }
  auto request = THIMBLE_TRY(request_of(flags));
  if (flags.this_machine) request.measured = THIMBLE_TRY(measured_machine(request));
  const auto subject = THIMBLE_TRY(subject_of(flags.config));
  const auto plan = THIMBLE_TRY(planner::make_plan(subject, flags.config, request));
  print_out(flags.json ? planner::to_json(plan) : planner::to_text(plan));
  if (!flags.charts.empty()) THIMBLE_TRY(write_charts(plan, flags.charts));
  return kExitDone;
}

void describe(PlanFlags& flags, Options& options) {
  options.add("--config", flags.config,
              "config.json, a model directory, `released`, or a generation before it: dense-67b, "
              "v3.2, v4-flash");
  options.flag("--json", flags.json, "print JSON instead of text");
  options.add("--svg", flags.charts, "also write the charts into this directory");
  options.flag("--list-machines", flags.list_machines, "name the machines and what they have");
  options.flag("--this-machine", flags.this_machine,
               "measure memory and processors here (`thimble bench roofs`)");
  const auto fields = planner::plan_fields();
  flags.fields.resize(fields.size());
  const planner::PlanRequest defaults;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string value = fields[i].get(defaults);
    options.add("--" + std::string(fields[i].name), flags.fields[i],
                value.empty() ? fields[i].help : fmt::format("{} [{}]", fields[i].help, value));
  }
}

}  // namespace

Command plan_command() {
  auto flags = std::make_shared<PlanFlags>();
  return {
      .name = "plan",
      .summary = "Bytes and operations of a model, before anything is bought or loaded",
      .details =
          "From a configuration alone: what a token and a sequence take and why, how many contexts "
          "a memory holds, operations of prompts and decoded tokens, what lies where on a machine "
          "and how fast that can be, what replay costs. Every flag is a what-if; formulas are in "
          "docs/planner.md. `thimble serve` has the same with sliders at /plan.",
      .examples = {{"thimble plan", "the released model on a desktop"},
                   {"thimble plan --context 1048576 --memory 80GiB", "how many contexts fit"},
                   {"thimble plan --machine workstation --ram 768GiB", "another machine"},
                   {"thimble plan --modes 2xS,F2,5xU,F1,3xU --json", "another mix of layers"}},
      .describe = [flags](Options& options) { describe(*flags, options); },
      .check = [flags]() -> Result<void> {
        THIMBLE_TRY(request_of(*flags));
        return {};
      },
      .run = [flags] { return run_plan(*flags); }};
}

}  // namespace thimble::app
