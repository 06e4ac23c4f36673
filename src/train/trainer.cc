#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "text/token_map.h"
#include "train/internal/checkpoint_files.h"
#include "train/internal/learner.h"
#include "train/internal/state_file.h"
#include "train/report.h"

namespace thimble::train {
namespace {

using internal::Counters;
using internal::Learner;
using internal::StepFigures;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Tokenizer, Engram hashes and documents: what is read once.
struct Inputs {
  std::optional<text::Tokenizer> tokenizer;
  std::vector<int32_t> token_map;
  std::optional<model::EngramHasher> hasher;
  std::vector<TrainingDocument> documents, held_out;
};

// Models without a tokenizer (synthetic tasks) hash plain ids.
Result<std::vector<int32_t>> make_token_map(const TrainOptions& options, const Inputs& inputs) {
  std::vector<int32_t> map(options.config.vocab_size);
  for (size_t i = 0; i < map.size(); ++i) map[i] = static_cast<int32_t>(i);
  if (!inputs.tokenizer) return map;
  const auto built = THIMBLE_TRY(text::build_token_map(*inputs.tokenizer));
  if (built.class_of.size() > map.size()) {
    return base::fail(ErrorCode::kInvalidArgument, "{} has {} ids; vocab_size is {}",
                      options.tokenizer.string(), built.class_of.size(), map.size());
  }
  // Ids beyond the tokenizer's never occur; as in the served model they share the first class.
  std::fill(map.begin(), map.end(), 0);
  std::copy(built.class_of.begin(), built.class_of.end(), map.begin());
  return map;
}

Result<Inputs> read_inputs(const TrainOptions& options) {
  Inputs out;
  if (!options.tokenizer.empty()) {
    out.tokenizer = THIMBLE_TRY(text::Tokenizer::open(options.tokenizer));
  }
  if (!options.config.engram.layer_ids.empty()) {
    out.token_map = THIMBLE_TRY(make_token_map(options, out));
    out.hasher = THIMBLE_TRY(model::EngramHasher::create(options.config, out.token_map));
  }
  const CorpusTools tools{.tokenizer = out.tokenizer ? &*out.tokenizer : nullptr,
                          .vocab_size = options.config.vocab_size};
  out.documents = THIMBLE_TRY(read_sources(options.data, tools));
  out.held_out = THIMBLE_TRY(read_sources(options.held_out, tools));
  if (out.documents.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "the data sources hold no document");
  }
  return out;
}

std::vector<uint32_t> lengths_of(const std::vector<TrainingDocument>& documents) {
  std::vector<uint32_t> out;
  for (const TrainingDocument& d : documents) out.push_back(static_cast<uint32_t>(d.tokens.size()));
  return out;
}

// Rows in order, epoch after epoch.
class RowStream {
 public:
  RowStream(const TrainOptions& options, const std::vector<TrainingDocument>& documents)
      : options_(options), documents_(documents), lengths_(lengths_of(documents)) {}

  // kInvalidArgument: the data has no such place.
  Result<void> seek(const Counters& counters) {
    epoch_ = static_cast<uint32_t>(counters.epoch);
    packing_ = pack(epoch_);
    row_ = static_cast<size_t>(counters.row);
    if (counters.row >= 0 && row_ <= packing_.rows.size()) return {};
    return base::fail(ErrorCode::kInvalidArgument,
                      "the state goes on at row {} of an epoch; the data makes {} rows: it is not "
                      "what the run began with",
                      counters.row, packing_.rows.size());
  }
  void tell(Counters& counters) const {
    counters.epoch = epoch_;
    counters.row = static_cast<int64_t>(row_);
  }
  const Packing& packing() const { return packing_; }

  // One step's rows in pieces.
  std::vector<Batch> next(uint64_t step) {
    BatchOptions batch;
    batch.window = options_.config.sliding_window;
    batch.replay = options_.replay;
    batch.replay_share = options_.replay_share;
    std::vector<Batch> out;
    for (uint32_t begin = 0; begin < options_.rows_per_step; begin += options_.rows_per_piece) {
      std::vector<Row> rows;
      const uint32_t end = std::min(begin + options_.rows_per_piece, options_.rows_per_step);
      for (uint32_t i = begin; i < end; ++i) rows.push_back(next_row());
      batch.seed = options_.seed + step * 1'000'003 + begin;
      out.push_back(make_batch(rows, documents_, batch));
    }
    return out;
  }

 private:
  Packing pack(uint32_t epoch) const {
    return pack_rows(lengths_,
                     {.row_tokens = options_.row_tokens, .seed = options_.seed, .epoch = epoch});
  }
  const Row& next_row() {
    if (row_ == packing_.rows.size()) {
      packing_ = pack(++epoch_);
      row_ = 0;
    }
    return packing_.rows[row_++];
  }

  const TrainOptions& options_;
  const std::vector<TrainingDocument>& documents_;
  std::vector<uint32_t> lengths_;
  Packing packing_;
  uint32_t epoch_ = 0;
  size_t row_ = 0;
};

std::vector<Batch> held_out_pieces(const TrainOptions& options,
                                   const std::vector<TrainingDocument>& documents,
                                   DecoderReplay replay) {
  BatchOptions batch;
  batch.window = options.config.sliding_window;
  batch.replay = replay;
  std::vector<Batch> out;
  const Packing packing = pack_rows(lengths_of(documents), {.row_tokens = options.row_tokens});
  for (size_t i = 0; i < packing.rows.size(); i += options.rows_per_piece) {
    const size_t count = std::min<size_t>(options.rows_per_piece, packing.rows.size() - i);
    out.push_back(make_batch({packing.rows.data() + i, count}, documents, batch));
  }
  return out;
}

class Run {
 public:
  Run(const TrainOptions& options, const TrainRun& run, const Inputs& inputs)
      : options_(options),
        run_(run),
        inputs_(inputs),
        plan_(arch::make_layer_plan(options.config)),
        pool_(run.threads),
        learner_(options, {&options.config, &plan_, inputs.hasher ? &*inputs.hasher : nullptr},
                 pool_),
        rows_(options, inputs.documents),
        held_out_(held_out_pieces(options, inputs.held_out, DecoderReplay::kNone)) {}

  Result<std::vector<HeldOutScore>> score() {
    internal::compute_alone();
    THIMBLE_TRY(begin());
    const auto replayed = held_out_pieces(options_, inputs_.held_out, DecoderReplay::kTurns);
    const std::tuple<const char*, internal::EvaluationForm, const std::vector<Batch>*> forms[] = {
        {"served", {}, &held_out_},
        {"caches unrounded", {.round_caches = false}, &held_out_},
        {"nothing rounded", {.stored_weights = false, .round_caches = false}, &held_out_},
        {"every entry selected", {.topk = options_.row_tokens}, &held_out_},
        {"decoder half replayed", {}, &replayed}};
    std::vector<HeldOutScore> out;
    for (const auto& [name, form, pieces] : forms) {
      const internal::Evaluation e = THIMBLE_TRY(learner_.evaluate(*pieces, form));
      out.push_back({name, e.cross_entropy, e.accuracy, static_cast<uint64_t>(e.labels)});
    }
    return out;
  }

  Result<TrainSummary> go() {
    internal::compute_alone();
    THIMBLE_TRY(begin());
    const double began = seconds_now();
    const auto first = static_cast<uint64_t>(learner_.state().step);
    uint64_t last = options_.steps;
    if (run_.stop_after > 0) last = std::min(last, first + run_.stop_after);
    while (static_cast<uint64_t>(learner_.state().step) < last && !interrupted()) {
      THIMBLE_TRY(step());
    }
    THIMBLE_TRY(save());
    if (!run_.export_to.empty()) THIMBLE_TRY(export_model());
    TrainSummary out;
    out.steps = static_cast<uint64_t>(learner_.state().step) - first;
    out.tokens = trained_;
    out.seconds = seconds_now() - began;
    out.loss = reports_.empty() ? kNan : reports_.back().figure("loss");
    out.held_out = held_out_loss_;
    out.gigaflops = learner_.flops_a_token() * static_cast<double>(trained_) / out.seconds * 1e-9;
    return out;
  }

 private:
  bool interrupted() const { return run_.stop && run_.stop(); }
  void note(const std::string& text) const {
    if (run_.on_note) run_.on_note(text);
  }
  Path state_path() const { return run_.folder / "state.safetensors"; }

  Result<void> begin() {
    std::error_code error;
    std::filesystem::create_directories(run_.folder, error);
    if (error) {
      return base::fail(ErrorCode::kIo, "cannot make {}: {}", run_.folder.string(),
                        error.message());
    }
    if (options_.start.empty()) {
      learner_.begin(internal::begin_values(learner_.parameters(), options_.seed));
    } else {
      const auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(options_.start));
      if (!(checkpoint.config() == options_.config)) {
        return base::fail(ErrorCode::kInvalidArgument, "{} has another configuration",
                          options_.start.string());
      }
      learner_.begin(internal::import_values(checkpoint, learner_.parameters()));
    }
    if (std::filesystem::exists(state_path())) {
      counters_ =
          THIMBLE_TRY(internal::read_state(state_path(), learner_.parameters(), learner_.state()));
      note(fmt::format("resumed at step {}", learner_.state().step));
    }
    THIMBLE_TRY(rows_.seek(counters_));
    const Packing& packing = rows_.packing();
    note(fmt::format("{} documents, {} tokens in {} rows of {}; {:.3f} % of the room is empty",
                     inputs_.documents.size(), packing.tokens, packing.rows.size(),
                     options_.row_tokens, 100 * packing.padding));
    reports_ = THIMBLE_TRY(
        read_curves(run_.folder / "curves.csv", static_cast<uint64_t>(learner_.state().step)));
    return {};
  }

  Result<void> step() {
    const double began = seconds_now();
    const auto number = static_cast<uint64_t>(learner_.state().step);
    const StepFigures figures = THIMBLE_TRY(learner_.step(rows_.next(number)));
    trained_ += static_cast<uint64_t>(figures.tokens);
    counters_.tokens += figures.tokens;
    StepReport report = make_report(figures, seconds_now() - began);
    const uint64_t done = number + 1;
    const bool last = done == options_.steps;
    const bool evaluates = options_.eval_every > 0 && done % options_.eval_every == 0;
    if (!held_out_.empty() && (evaluates || last)) {
      const internal::Evaluation score = THIMBLE_TRY(learner_.evaluate(held_out_));
      held_out_loss_ = score.cross_entropy;
      report.figures.emplace_back("held_out", score.cross_entropy);
      report.figures.emplace_back("accuracy", score.accuracy);
    }
    if (run_.on_step) run_.on_step(report);
    if (done % options_.log_every == 0 || last || done == 1 ||
        std::isfinite(report.figure("held_out"))) {
      reports_.push_back(std::move(report));
      THIMBLE_TRY(write_curves(run_.folder, reports_));
    }
    if (options_.save_every > 0 && done % options_.save_every == 0) THIMBLE_TRY(save());
    return {};
  }

  StepReport make_report(const StepFigures& f, double seconds) const {
    StepReport out;
    out.step = static_cast<uint64_t>(learner_.state().step);
    out.steps = options_.steps;
    out.tokens = static_cast<uint64_t>(counters_.tokens);
    out.figures = {{"loss", f.cross_entropy},
                   {"indexer", f.indexer},
                   {"balance", f.balance},
                   {"gradient", f.gradient_norm},
                   {"entropy_mean", f.entropy_mean},
                   {"entropy_min", f.entropy_min},
                   {"captured", f.index.captured()},
                   {"mass", f.index.rows > 0 ? f.index.mass / f.index.rows : kNan},
                   {"bound", f.index.rows > 0 ? f.index.bound / f.index.rows : kNan},
                   {"tokens_per_second", static_cast<double>(f.tokens) / seconds}};
    return out;
  }

  Result<void> save() {
    rows_.tell(counters_);
    return internal::write_state(state_path(), learner_.parameters(), learner_.state(), counters_);
  }

  Result<void> export_model() {
    std::error_code error;
    std::filesystem::create_directories(run_.export_to, error);
    THIMBLE_TRY(internal::export_values(options_.config, learner_.parameters(),
                                        learner_.state().masters, run_.export_to));
    if (options_.tokenizer.empty()) return {};
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      const Path from = options_.tokenizer.parent_path() / name;
      const Path source = std::string_view(name) == "tokenizer.json" ? options_.tokenizer : from;
      if (!std::filesystem::exists(source)) continue;
      const std::string text = THIMBLE_TRY(base::read_file(source));
      THIMBLE_TRY(base::write_file_atomic(run_.export_to / name, text));
    }
    return {};
  }

  const TrainOptions& options_;
  const TrainRun& run_;
  const Inputs& inputs_;
  arch::LayerPlan plan_;
  base::ThreadPool pool_;
  Learner learner_;
  RowStream rows_;
  std::vector<Batch> held_out_;
  Counters counters_;
  std::vector<StepReport> reports_;
  uint64_t trained_ = 0;
  double held_out_loss_ = kNan;
};

}  // namespace

bool can_train() { return true; }

Result<TrainSummary> train_model(const TrainOptions& options, const TrainRun& run) {
  const Inputs inputs = THIMBLE_TRY(read_inputs(options));
  return Run(options, run, inputs).go();
}

Result<std::vector<HeldOutScore>> score_held_out(const TrainOptions& options, const TrainRun& run) {
  if (options.held_out.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "held_out is missing: nothing to score");
  }
  const Inputs inputs = THIMBLE_TRY(read_inputs(options));
  return Run(options, run, inputs).score();
}

}  // namespace thimble::train
