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
#include "train/internal/row_stream.h"
#include "train/internal/state_file.h"
#include "train/report.h"

namespace thimble::train {
namespace {

using internal::Counters;
using internal::Learner;
using internal::RowStream;
using internal::StepFigures;

constexpr uint64_t kReleaseEvery = 10;  // steps; costs what faulting the pages in again takes
constexpr const char* kStateName = "state.safetensors";
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Tokenizer and Engram hashes.
struct Inputs {
  std::optional<text::Tokenizer> tokenizer;
  std::vector<int32_t> token_map;
  std::optional<model::EngramHasher> hasher;
};

// Models without a tokenizer (synthetic tasks) hash plain ids.
Result<std::vector<int32_t>> make_token_map(const TrainOptions& options, const Inputs& inputs) {
  std::vector<int32_t> map(options.config.vocab_size);
  for (size_t i = 0; i < map.size(); ++i) map[i] = static_cast<int32_t>(i);
  if (!inputs.tokenizer) return map;
  const auto built = THIMBLE_TRY(text::build_token_map(*inputs.tokenizer));
  CHECK_LE(built.class_of.size(), map.size());
  // Ids beyond the tokenizer's never occur; as in the served model they share the first class.
  std::fill(map.begin(), map.end(), 0);
  std::copy(built.class_of.begin(), built.class_of.end(), map.begin());
  return map;
}

Result<Inputs> read_inputs(const TrainOptions& options) {
  Inputs out;
  if (!options.tokenizer.empty()) {
    out.tokenizer = THIMBLE_TRY(text::Tokenizer::open(options.tokenizer));
    if (static_cast<uint64_t>(out.tokenizer->size()) > options.config.vocab_size) {
      return base::fail(ErrorCode::kInvalidArgument, "{} has {} ids; vocab_size is {}",
                        options.tokenizer.string(), out.tokenizer->size(),
                        options.config.vocab_size);
    }
  }
  if (!options.config.engram.layer_ids.empty()) {
    out.token_map = THIMBLE_TRY(make_token_map(options, out));
    out.hasher = THIMBLE_TRY(model::EngramHasher::create(options.config, out.token_map));
  }
  return out;
}

Result<Corpus> read_corpus(const TrainOptions& options, const TrainRun& run, const Inputs& inputs,
                           const std::vector<Source>& sources) {
  SourceTools tools;
  tools.tokenizer = inputs.tokenizer ? &*inputs.tokenizer : nullptr;
  tools.vocab_size = options.config.vocab_size;
  tools.on_bytes = run.on_bytes;
  tools.stop = run.stop;
  return read_sources(sources, tools, run.folder);
}

Result<void> make_folder(const Path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return {};
  return base::fail(ErrorCode::kIo, "cannot make {}: {}", folder.string(), error.message());
}

class Run {
 public:
  Run(const TrainOptions& options, const TrainRun& run, const Inputs& inputs,
      const Corpus& held_out)
      : options_(options),
        run_(run),
        plan_(arch::make_layer_plan(options.config)),
        pool_(run.threads),
        learner_(options, {&options.config, &plan_, inputs.hasher ? &*inputs.hasher : nullptr},
                 pool_),
        held_out_(internal::held_out_pieces(options, held_out, DecoderReplay::kNone)) {}

  Result<std::vector<HeldOutScore>> score(const Corpus& held_out) {
    internal::compute_alone();
    THIMBLE_TRY(begin());
    const auto replayed = internal::held_out_pieces(options_, held_out, DecoderReplay::kTurns);
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

  Result<TrainSummary> go(const Corpus& corpus) {
    internal::compute_alone();
    THIMBLE_TRY(begin());
    RowStream rows(options_, corpus);
    THIMBLE_TRY(find_place(corpus, rows));
    const double began = seconds_now();
    const auto first = static_cast<uint64_t>(learner_.state().step);
    uint64_t last = options_.steps;
    if (run_.stop_after > 0) last = std::min(last, first + run_.stop_after);
    while (static_cast<uint64_t>(learner_.state().step) < last) {
      const bool whole = THIMBLE_TRY(step(rows));
      if (!whole) break;
    }
    THIMBLE_TRY(save());
    TrainSummary out;
    out.interrupted = static_cast<uint64_t>(learner_.state().step) < last;
    if (!out.interrupted && !run_.export_to.empty()) THIMBLE_TRY(export_model());
    out.steps = static_cast<uint64_t>(learner_.state().step) - first;
    out.tokens = trained_;
    out.seconds = seconds_now() - began;
    out.loss = reports_.empty() ? kNan : reports_.back().figure("loss");
    out.held_out = held_out_loss_;
    out.gigaflops = learner_.flops_a_token() * static_cast<double>(trained_) / out.seconds * 1e-9;
    return out;
  }

 private:
  void note(const std::string& text) const {
    if (run_.on_note) run_.on_note(text);
  }
  Path state_path() const { return run_.folder / kStateName; }

  Result<void> begin() {
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
    if (!std::filesystem::exists(state_path())) return {};
    counters_ =
        THIMBLE_TRY(internal::read_state(state_path(), learner_.parameters(), learner_.state()));
    note(fmt::format("resumed at step {}", learner_.state().step));
    return {};
  }

  // Where the data goes on, and the curves.
  Result<void> find_place(const Corpus& corpus, RowStream& rows) {
    const auto step = static_cast<uint64_t>(learner_.state().step);
    if (counters_) THIMBLE_TRY(base::in(rows.seek(*counters_), state_path().string()));
    if (!counters_) counters_ = rows.place();
    const Packing& packing = rows.packing();
    note(fmt::format("{} documents, {} tokens in {} rows of {}; {:.3f} % of the room is empty",
                     corpus.size(), packing.tokens, packing.rows.size(), options_.row_tokens,
                     100 * packing.padding));
    reports_ = THIMBLE_TRY(read_curves(run_.folder / "curves.csv", step));
    return {};
  }

  // False: stopped within the step, which has changed nothing.
  Result<bool> step(RowStream& rows) {
    const double began = seconds_now();
    const auto number = static_cast<uint64_t>(learner_.state().step);
    const auto figures = learner_.step(rows.next(number), run_.stop);
    if (!figures && figures.error().code == ErrorCode::kCancelled) return false;
    if (!figures) return tl::unexpected(figures.error());
    trained_ += static_cast<uint64_t>(figures->tokens);
    const int64_t tokens = counters_->tokens + figures->tokens;
    counters_ = rows.place();
    counters_->tokens = tokens;
    StepReport report = make_report(*figures, seconds_now() - began);
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
    if (done % kReleaseEvery == 0) internal::release_free_pages();
    return true;
  }

  StepReport make_report(const StepFigures& f, double seconds) const {
    StepReport out;
    out.step = static_cast<uint64_t>(learner_.state().step);
    out.steps = options_.steps;
    out.tokens = static_cast<uint64_t>(counters_->tokens);
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
    return internal::write_state(state_path(), learner_.parameters(), learner_.state(), *counters_);
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
  arch::LayerPlan plan_;
  base::ThreadPool pool_;
  Learner learner_;
  std::vector<Batch> held_out_;
  std::optional<Counters> counters_;  // of what was done; nothing: no state and no data yet
  std::vector<StepReport> reports_;
  uint64_t trained_ = 0;
  double held_out_loss_ = kNan;
};

}  // namespace

bool can_train() { return true; }

Result<TrainSummary> train_model(const TrainOptions& options, const TrainRun& run) {
  THIMBLE_TRY(make_folder(run.folder));
  const Inputs inputs = THIMBLE_TRY(read_inputs(options));
  const Corpus corpus = THIMBLE_TRY(read_corpus(options, run, inputs, options.data));
  const Corpus held_out = THIMBLE_TRY(read_corpus(options, run, inputs, options.held_out));
  if (corpus.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "the data sources hold no document");
  }
  return Run(options, run, inputs, held_out).go(corpus);
}

Result<std::vector<HeldOutScore>> score_held_out(const TrainOptions& options, const TrainRun& run) {
  if (options.held_out.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "held_out is missing: nothing to score");
  }
  if (options.start.empty() && !std::filesystem::exists(run.folder / kStateName)) {
    return base::fail(ErrorCode::kNotFound, "{} holds no {}: nothing was trained there",
                      run.folder.string(), kStateName);
  }
  THIMBLE_TRY(make_folder(run.folder));
  const Inputs inputs = THIMBLE_TRY(read_inputs(options));
  const Corpus held_out = THIMBLE_TRY(read_corpus(options, run, inputs, options.held_out));
  return Run(options, run, inputs, held_out).score(held_out);
}

}  // namespace thimble::train
