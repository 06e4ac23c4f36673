#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/thimble/commands.h"
#include "apps/thimble/interrupts.h"
#include "base/terminal.h"
#include "engine/engine.h"
#include "train/report.h"
#include "train/trainer.h"

namespace thimble::app {
namespace {

struct TrainFlags {
  Path config;
  Path out;
  Path export_to;
  uint64_t steps = 0;
  uint32_t threads = 0;
  bool dense = false;
  bool score = false;
  bool json = false;
};

// One line a logged step where standard error is no terminal; a bar where it is.
class Display {
 public:
  // `steps`: of this call at most; 0: to the end of the run.
  Display(const train::TrainOptions& options, uint64_t steps)
      : every_(options.log_every), steps_(steps) {}

  void step(const train::StepReport& r) {
    if (!bar_) {
      const uint64_t left = r.steps - (r.step - 1);
      bar_.emplace("training", steps_ > 0 ? std::min(steps_, left) : left,
                   base::Progress::Unit::kCount);
    }
    bar_->add(1);
    if (r.step % every_ != 0 && r.step != 1 && r.step != r.steps) return;
    std::string line =
        fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  balance {:.3f}", r.step, r.steps,
                    r.figure("loss"), r.figure("tokens_per_second"), r.figure("entropy_mean"));
    const double captured = r.figure("captured");
    const double held_out = r.figure("held_out");
    if (captured != 0) line += fmt::format("  indexer {:.2f}", captured);
    if (std::isfinite(held_out)) line += fmt::format("  held-out {:.4f}", held_out);
    fmt::print(stderr, "{}\n", line);
  }

 private:
  uint64_t every_;
  uint64_t steps_;
  std::optional<base::Progress> bar_;
};

// A bar while the data is read, until there is something to note.
class Reading {
 public:
  explicit Reading(uint64_t bytes) {
    if (bytes > 0) bar_.emplace("reading", bytes, base::Progress::Unit::kBytes);
  }
  void add(uint64_t bytes) {
    if (bar_) bar_->add(bytes);
  }
  void note(const std::string& text) {
    bar_.reset();
    fmt::print(stderr, "{}\n", text);
  }

 private:
  std::optional<base::Progress> bar_;
};

void tell(train::TrainRun& run, Reading& reading) {
  run.on_bytes = [&reading](uint64_t bytes) { reading.add(bytes); };
  run.on_note = [&reading](const std::string& text) { reading.note(text); };
}

Result<int> run_score(const TrainFlags& flags, const train::TrainOptions& options) {
  train::TrainRun run;
  run.folder = flags.out;
  run.threads = flags.threads;
  Reading reading(train::file_bytes(options.held_out));
  tell(run, reading);
  const auto scores = THIMBLE_TRY(train::score_held_out(options, run));
  if (!flags.json)
    print_out(
        fmt::format("{:<24}{:>10}{:>12}{:>10}\n", "held-out data", "loss", "perplexity", "right"));
  for (const train::HeldOutScore& s : scores) {
    if (flags.json) {
      const nlohmann::ordered_json line = {
          {"form", s.form}, {"loss", s.loss}, {"accuracy", s.accuracy}, {"labels", s.labels}};
      print_out(line.dump() + "\n");
      continue;
    }
    print_out(fmt::format("{:<24}{:>10.4f}{:>12.4f}{:>9.2f}%\n", s.form, s.loss, std::exp(s.loss),
                          100 * s.accuracy));
  }
  return kExitDone;
}

std::string to_text(const train::TrainSummary& summary) {
  if (summary.steps == 0) return "no step was done\n";
  return fmt::format(
      "{} steps, {} tokens in {:.1f} s: {:.0f} tokens/s, {:.1f} GFLOP/s of products; loss {:.4f}\n",
      summary.steps, summary.tokens, summary.seconds,
      static_cast<double>(summary.tokens) / summary.seconds, summary.gigaflops, summary.loss);
}

Result<int> run_train(const TrainFlags& flags) {
  if (!train::can_train()) {
    return base::fail(ErrorCode::kUnsupported,
                      "this build has no training: `scripts/deps.sh train` installs libtorch, then "
                      "build again");
  }
  auto options = THIMBLE_TRY(train::load_train_options(flags.config));
  if (flags.dense) options = train::dense_twin(std::move(options));
  if (flags.score) return run_score(flags, options);
  const Interrupts interrupts;
  Display display(options, flags.steps);
  train::TrainRun run;
  run.folder = flags.out;
  run.export_to = flags.export_to;
  run.threads = flags.threads;
  run.stop_after = flags.steps;
  run.stop = [&] { return interrupts.pending() != 0; };
  run.on_step = [&](const train::StepReport& r) { display.step(r); };
  Reading reading(train::file_bytes(options.data) + train::file_bytes(options.held_out));
  tell(run, reading);
  const auto summary = THIMBLE_TRY(train::train_model(options, run));
  print_out(to_text(summary));
  if (summary.steps > 0) {
    print_out(fmt::format("curves: {}\n", train::curves_picture(flags.out).string()));
  }
  if (summary.interrupted) {
    print_out("interrupted: the same command goes on; nothing is exported\n");
  } else if (!flags.export_to.empty()) {
    print_out(fmt::format("model: {}\n", flags.export_to.string()));
  }
  return kExitDone;
}

Result<void> check(const TrainFlags& flags) {
  if (flags.score && (flags.steps > 0 || !flags.export_to.empty())) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "--score takes no step and writes no model; leave --steps and --export out");
  }
  return check_range("--threads", flags.threads, 0, engine::kThreadsMax);
}

}  // namespace

Command train_command() {
  auto flags = std::make_shared<TrainFlags>();
  return {
      .name = "train",
      .summary = "Train a small model of the architecture",
      .details =
          "Reads a JSON file that names the model's config.json, a tokenizer, the data and the "
          "number of steps (docs/training.md lists every key). --out keeps the state of the run: "
          "the same command goes on where it was stopped, to the bit; Ctrl-C saves and ends. It "
          "also holds the curves as CSV and SVG, which can be watched while the run goes. --export "
          "writes a model in the released layout that every other command loads. Needs a build "
          "with libtorch.",
      .examples = {{"thimble train recall.json --out runs/recall --export models/recall",
                    "from nothing to a model"},
                   {"thimble train chat.json --out runs/chat --steps 200", "a leg of 200 steps"},
                   {"thimble train chat.json --out runs/chat --score", "what rounding costs"}},
      .describe =
          [flags](Options& options) {
            options.add("CONFIG", flags->config, "the run, as JSON", Need::kRequired);
            options.add("--out", flags->out, "folder of the run's state and curves",
                        Need::kRequired);
            options.add("--export", flags->export_to, "directory for the model, at the end");
            options.add("--steps", flags->steps, "stop after so many steps; 0: to the end");
            options.add("--threads", flags->threads, "0: one a CPU; the result is the same");
            options.flag("--dense", flags->dense,
                         "the run's dense twin: every entry of a row is attended, nothing else "
                         "differs");
            options.flag("--score", flags->score,
                         "no step: score the held-out data as served, without rounding of caches "
                         "or weights, with every entry selected, and with a bounded replay");
            options.flag("--json", flags->json, "with --score: JSON lines");
          },
      .check = [flags] { return check(*flags); },
      .run = [flags] { return run_train(*flags); }};
}

}  // namespace thimble::app
