#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/thimble/bench/commands.h"
#include "apps/thimble/bench/isa_flag.h"
#include "apps/thimble/bench/speeds.h"
#include "apps/thimble/bench/waiter.h"
#include "apps/thimble/mode_flag.h"
#include "base/random.h"
#include "engine/engine.h"
#include "kernels/table.h"

namespace thimble::app {
namespace {

struct GenerateFlags {
  Path model;
  uint64_t prompt_tokens = 512;
  uint32_t tokens = 64;
  uint32_t threads = 0;
  uint32_t rounds = 3;
  std::string mode = "fast";
  std::string isa;
  bool json = false;
};

Result<engine::GenerationEnd> run_once(engine::Engine& engine, const GenerateFlags& flags,
                                       uint64_t seed) {
  engine::GenerationRequest request;
  base::SplitMix64 random(seed);
  for (uint64_t i = 0; i < flags.prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<int32_t>(random.below(engine.config().vocab_size)));
  }
  request.max_tokens = flags.tokens;
  request.reuse = false;
  auto sink = std::make_shared<Waiter>();
  THIMBLE_TRY(engine.submit(std::move(request), sink));
  const engine::GenerationEnd end = sink->wait();
  if (end.error) return tl::unexpected(*end.error);
  return end;
}

// The best of the rounds.
Result<Speeds> measure_speeds(engine::Engine& engine, const GenerateFlags& flags) {
  Speeds best;
  for (uint32_t round = 0; round < flags.rounds; ++round) {
    const Speeds speeds = speeds_of(THIMBLE_TRY(run_once(engine, flags, round)));
    best.prefill = std::max(best.prefill, speeds.prefill);
    best.decode = std::max(best.decode, speeds.decode);
  }
  return best;
}

Result<int> run_generate(const GenerateFlags& flags) {
  engine::EngineOptions options;
  options.model_dir = flags.model;
  options.threads = flags.threads;
  options.mode = mode_of(flags.mode);
  options.context_tokens = flags.prompt_tokens + flags.tokens;
  const auto engine = THIMBLE_TRY(engine::Engine::open(options));
  for (const kernels::Table* table : kernels::runnable()) {
    if (!flags.isa.empty() && flags.isa != kernels::name(*table)) continue;
    const kernels::ScopedTable scope(*table);
    const Speeds speeds = THIMBLE_TRY(measure_speeds(*engine, flags));
    const auto layers = static_cast<double>(engine->layers().layers.size());
    if (flags.json) {
      nlohmann::ordered_json line = {{"model", engine->model_name()},
                                     {"isa", kernels::name(*table)},
                                     {"mode", flags.mode},
                                     {"prompt_tokens", flags.prompt_tokens},
                                     {"tokens", flags.tokens},
                                     {"prefill_tokens_per_second", speeds.prefill},
                                     {"decode_tokens_per_second", speeds.decode}};
      print_out(line.dump() + "\n");
    } else {
      print_out(
          fmt::format("{:<11} prefill {:>8.1f} tokens/s, decode {:>8.1f} tokens/s ({:.3g} and "
                      "{:.3g} ms a layer and token)\n",
                      kernels::name(*table), speeds.prefill, speeds.decode,
                      1e3 / speeds.prefill / layers, 1e3 / speeds.decode / layers));
    }
  }
  return kExitDone;
}

}  // namespace

Command bench_generate_command() {
  auto flags = std::make_shared<GenerateFlags>();
  return {.name = "generate",
          .summary = "Tokens a second of a model, one request at a time",
          .details =
              "Random prompts, the best of several rounds, on every instruction set there is: the "
              "scalar table is the baseline.",
          .examples = {{"thimble bench generate --model models/nano", ""}},
          .describe =
              [flags](Options& options) {
                options.add("--model", flags->model, "directory of the model", Need::kRequired);
                options.add("--prompt-tokens", flags->prompt_tokens, "random ids");
                options.add("--tokens", flags->tokens, "generated, at least 2");
                options.add("--rounds", flags->rounds, "of which the best counts");
                options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
                options.choice("--mode", flags->mode, {"fast", "exact"}, "arithmetic");
                options.add("--isa", flags->isa, "one instruction set; else all");
                options.flag("--json", flags->json, "print JSON lines");
              },
          .check = [flags]() -> Result<void> {
            THIMBLE_TRY(check_range("--tokens", flags->tokens, 2, 1U << 20));
            THIMBLE_TRY(check_range("--prompt-tokens", flags->prompt_tokens, 1, 1U << 24));
            THIMBLE_TRY(check_range("--rounds", flags->rounds, 1, 1000));
            THIMBLE_TRY(check_range("--threads", flags->threads, 0, engine::kThreadsMax));
            return check_isa(flags->isa);
          },
          .run = [flags] { return run_generate(*flags); }};
}

}  // namespace thimble::app
