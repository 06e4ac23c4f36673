#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/thimble/bench/commands.h"
#include "apps/thimble/mode_flag.h"
#include "arch/random_weights.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/terminal.h"
#include "engine/engine.h"
#include "engine/forced_run.h"
#include "engine/model_files.h"
#include "kernels/table.h"
#include "planner/flops.h"
#include "planner/modes.h"

namespace thimble::app {
namespace {

constexpr const char* kRoles = "2xS, F2, U, F1, U, R, U";  // every role, its neighbours before it
constexpr uint32_t kVocab = 2048;
constexpr uint64_t kPromptRows = 512;
constexpr uint64_t kDecoded = 24;

struct LayerFlags {
  Path model;
  uint32_t experts = 8;
  uint32_t threads = 0;
  std::string mode = "fast";
  bool json = false;
};

// When each layer was done.
class LayerClock : public model::Trace {
 public:
  explicit LayerClock(size_t layers) : done_us_(layers + 1) {}

  bool wants(std::string_view quantity) const override {
    return quantity == "embed" || quantity == "pre_mix.layers";
  }
  void floats(std::string_view quantity, uint32_t layer, uint64_t,
              std::span<const float>) override {
    done_us_[quantity == "embed" ? 0 : layer + 1] = base::monotonic_us();
  }
  void ints(std::string_view, uint32_t, uint64_t, std::span<const int32_t>) override {}

  double layer_us(size_t layer) const {
    return static_cast<double>(done_us_[layer + 1] - done_us_[layer]);
  }

 private:
  std::vector<int64_t> done_us_;  // [0]: the embedding
};

// Layers of the released widths, few experts, a small vocabulary.
Result<arch::Config> true_width_config(uint32_t experts) {
  arch::Config config = arch::released_config();
  config.vocab_size = kVocab;
  config.n_routed_experts = experts;
  config.engram = {};
  config.draft = {};
  config.vision.reset();
  config.image_token_id.reset();
  const auto modes = THIMBLE_TRY(planner::parse_modes(kRoles));
  return planner::with_modes(config, modes);
}

// A checkpoint of it in a folder that goes with the command.
Result<Path> make_model(const Path& folder, uint32_t experts) {
  const auto config = THIMBLE_TRY(true_width_config(experts));
  const Path model = folder / "layers";
  std::error_code error;
  std::filesystem::create_directories(model, error);
  if (error) {
    return base::fail(ErrorCode::kIo, "{}: cannot be made a directory: {}", model.string(),
                      error.message());
  }
  const uint64_t bytes = arch::totals(arch::expected_tensors(config)).bytes;
  base::Progress progress("layers of true width", bytes, base::Progress::Unit::kBytes);
  THIMBLE_TRY(arch::write_random_checkpoint(config, model, 1,
                                            [&](uint64_t written) { progress.add(written); }));
  return model;
}

struct LayerTimes {
  std::vector<double> prefill_us;  // [layers] a token
  std::vector<double> decode_us;   // [layers] the best
};

Result<LayerTimes> time_layers(const model::Model& model, base::ThreadPool& pool) {
  const size_t layers = model.plan().layers.size();
  base::SplitMix64 random(1);
  std::vector<int32_t> ids(3 * kPromptRows + kDecoded);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.below(model.config().vocab_size));
  auto sequence = THIMBLE_TRY(engine::ForcedSequence::create(model, ids.size(), pool));
  LayerTimes times{std::vector<double>(layers, 1e30), std::vector<double>(layers, 1e30)};
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
  for (uint64_t i = 0; i < kDecoded; ++i) {
    THIMBLE_TRY(sequence.run(all.subspan(3 * kPromptRows + i, 1), run, {}));
    for (size_t l = 0; l < layers; ++l) {
      times.decode_us[l] = std::min(times.decode_us[l], clock.layer_us(l));
    }
  }
  return times;
}

// One line a role: the first layer that has it.
void print_times(const model::Model& model, const LayerTimes& times, bool json) {
  const planner::FlopsModel flops(model.config());
  if (!json) {
    print_out(fmt::format("{:<40}{:>16}{:>22}\n", "role", "decode, ms", "prefill 512, ms/token"));
  }
  for (const planner::RoleCost& role : flops.roles()) {
    const uint32_t layer = role.first_layer;
    const double decode = 1e-3 * times.decode_us[layer];
    const double prefill = 1e-3 * times.prefill_us[layer];
    if (json) {
      const nlohmann::ordered_json line = {{"role", role.role},
                                           {"isa", kernels::name(kernels::kernels())},
                                           {"decode_ms", decode},
                                           {"prefill_ms_per_token", prefill}};
      print_out(line.dump() + "\n");
    } else {
      print_out(fmt::format("{:<40}{:>16.3f}{:>22.4f}\n", role.role, decode, prefill));
    }
  }
}

Result<int> run_layer(const LayerFlags& flags) {
  const base::TempDir folder;
  const Path path =
      flags.model.empty() ? THIMBLE_TRY(make_model(folder.path(), flags.experts)) : flags.model;
  const auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(path));
  const auto tokenizer = THIMBLE_TRY(engine::open_tokenizer(checkpoint));
  const auto token_map = THIMBLE_TRY(engine::engram_map(checkpoint, tokenizer));
  model::ModelOptions options;
  options.mode = mode_of(flags.mode);
  options.token_map = token_map;
  options.packing = engine::packing_here(checkpoint);
  const auto model = THIMBLE_TRY(model::Model::create(checkpoint, options));
  base::ThreadPool pool(flags.threads);
  const auto times = THIMBLE_TRY(time_layers(*model, pool));
  print_times(*model, times, flags.json);
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
              "one token, and 512 of a prompt, at a context of 1,500 tokens.",
          .examples = {{"thimble bench layer", "8 experts a layer"},
                       {"thimble bench layer --model DIR", "the layers of a model"}},
          .describe =
              [flags](Options& options) {
                options.add("--model", flags->model, "a model directory; else layers are made");
                options.add("--experts", flags->experts, "routed experts of a made layer");
                options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
                options.choice("--mode", flags->mode, {"fast", "exact"}, "arithmetic");
                options.flag("--json", flags->json, "print JSON lines");
              },
          .check = [flags]() -> Result<void> {
            THIMBLE_TRY(check_range("--experts", flags->experts, 6, 384));
            return check_range("--threads", flags->threads, 0, engine::kThreadsMax);
          },
          .run = [flags] { return run_layer(*flags); }};
}

}  // namespace thimble::app
