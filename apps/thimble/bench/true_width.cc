#include "apps/thimble/bench/true_width.h"

#include <algorithm>

#include "arch/random_weights.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/terminal.h"
#include "engine/model_files.h"
#include "planner/modes.h"

namespace thimble::app {
namespace {

constexpr const char* kRoles = "2xS, F2, U, F1, U, R, U";  // every role, its neighbours before it
constexpr uint32_t kVocab = 2048;

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

Result<Path> make_checkpoint(const Path& folder, uint32_t experts) {
  const auto config = THIMBLE_TRY(true_width_config(experts));
  const Path made = folder / "layers";
  std::error_code error;
  std::filesystem::create_directories(made, error);
  if (error) {
    return base::fail(ErrorCode::kIo, "{}: cannot be made a directory: {}", made.string(),
                      error.message());
  }
  const uint64_t bytes = arch::totals(arch::expected_tensors(config)).bytes;
  base::Progress progress("layers of true width", bytes, base::Progress::Unit::kBytes);
  THIMBLE_TRY(arch::write_random_checkpoint(config, made, 1,
                                            [&](uint64_t written) { progress.add(written); }));
  return made;
}

}  // namespace

Result<std::unique_ptr<BenchModel>> BenchModel::make(const Path& path, uint32_t experts,
                                                     model::Mode mode) {
  auto out = std::make_unique<BenchModel>();
  const Path from =
      path.empty() ? THIMBLE_TRY(make_checkpoint(out->folder_.path(), experts)) : path;
  out->checkpoint_ = THIMBLE_TRY(arch::Checkpoint::open(from));
  const auto tokenizer = THIMBLE_TRY(engine::open_tokenizer(*out->checkpoint_));
  const auto token_map = THIMBLE_TRY(engine::engram_map(*out->checkpoint_, tokenizer));
  model::ModelOptions options;
  options.mode = mode;
  options.token_map = token_map;
  options.packing = engine::packing_here(*out->checkpoint_);
  out->model_ = THIMBLE_TRY(model::Model::create(*out->checkpoint_, options));
  return out;
}

bool LayerClock::wants(std::string_view quantity) const {
  return quantity == "embed" || quantity == "pre_mix.layers";
}

void LayerClock::floats(std::string_view quantity, uint32_t layer, uint64_t,
                        std::span<const float>) {
  done_us_[quantity == "embed" ? 0 : layer + 1] = base::monotonic_us();
}

std::vector<int32_t> random_ids(const model::Model& model, uint64_t count) {
  base::SplitMix64 random(1);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.below(model.config().vocab_size));
  return ids;
}

Result<std::vector<double>> decode_us(engine::ForcedSequence& sequence, const model::Model& model,
                                      std::span<const int32_t> ids) {
  const size_t layers = model.plan().layers.size();
  std::vector<double> best(layers, 1e30);
  LayerClock clock(layers);
  engine::ForcedRun run;
  run.trace = &clock;
  for (size_t i = 0; i < ids.size(); ++i) {
    THIMBLE_TRY(sequence.run(ids.subspan(i, 1), run, {}));
    for (size_t l = 0; l < layers; ++l) best[l] = std::min(best[l], clock.layer_us(l));
  }
  return best;
}

double whole_us(const arch::LayerPlan& whole, const arch::LayerPlan& part,
                std::span<const double> part_us) {
  double us = 0;
  for (const arch::LayerRole& role : whole.layers) {
    const auto found = std::ranges::find_if(part.layers, [&](const arch::LayerRole& other) {
      return role.mode == other.mode && role.ratio == other.ratio;
    });
    CHECK(found != part.layers.end());
    us += part_us[static_cast<size_t>(found - part.layers.begin())];
  }
  return us;
}

}  // namespace thimble::app
