#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/thimble/eval/commands.h"
#include "apps/thimble/mode_flag.h"
#include "arch/checkpoint.h"
#include "base/terminal.h"
#include "engine/evals/divergence.h"
#include "engine/forced_run.h"
#include "engine/model_files.h"
#include "train/options.h"

namespace thimble::app {
namespace {

struct PerplexityFlags {
  Path model;
  Path text;
  Path run;
  std::string mode = "fast";
  std::string against;  // another mode, or empty
  uint64_t context = 512;
  uint32_t threads = 0;
  bool json = false;
};

struct Sums {
  double nats = 0;
  uint64_t labels = 0;
  uint64_t right = 0;             // labels with the largest logit
  engine::DivergenceSum against;  // from another mode, at the same places

  void add(std::span<const float> logits, int32_t label) {
    const auto top =
        static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    double sum = 0;
    for (const float l : logits) sum += std::exp(static_cast<double>(l - logits[top]));
    const auto wanted = static_cast<size_t>(label);
    nats += std::log(sum) - static_cast<double>(logits[wanted] - logits[top]);
    labels += 1;
    right += top == wanted ? 1 : 0;
  }
};

struct Scored {
  train::Corpus corpus;
  uint64_t bytes = 0;  // of a text; 0: not one
};

// The text in pieces of `context` predictions, each piece from nothing.
Result<Scored> read_text(const PerplexityFlags& flags, const text::Tokenizer& tokenizer) {
  const std::string text = THIMBLE_TRY(base::read_file(flags.text));
  const auto ids = tokenizer.encode(text, text::AddedTokens::kPlain);
  if (ids.size() < 2) {
    return base::fail(ErrorCode::kInvalidArgument, "{} has {} tokens; nothing to predict",
                      flags.text.string(), ids.size());
  }
  auto corpus = THIMBLE_TRY(train::CorpusWriter::create(std::filesystem::temp_directory_path()));
  for (size_t begin = 0; begin + 1 < ids.size(); begin += flags.context) {
    const size_t end = std::min<size_t>(begin + flags.context, ids.size() - 1);
    std::vector<train::LabelledToken> piece;
    for (size_t i = begin; i < end; ++i) piece.push_back({ids[i], ids[i + 1]});
    THIMBLE_TRY(corpus.add(piece));
  }
  auto pieces = THIMBLE_TRY(std::move(corpus).finish());
  return Scored{std::move(pieces), text.size()};
}

// The held-out documents of a training run, for this model's tokenizer.
Result<Scored> read_run(const PerplexityFlags& flags, const arch::Config& config,
                        const std::optional<text::Tokenizer>& tokenizer) {
  const auto options = THIMBLE_TRY(train::load_train_options(flags.run));
  if (options.held_out.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "{} has no held_out: nothing to score",
                      flags.run.string());
  }
  if (options.config.vocab_size != config.vocab_size) {
    return base::fail(
        ErrorCode::kInvalidArgument, "{} is for another model: its vocab_size is {}, {} has {}",
        flags.run.string(), options.config.vocab_size, flags.model.string(), config.vocab_size);
  }
  train::SourceTools tools;
  if (!options.tokenizer.empty() && tokenizer) tools.tokenizer = &*tokenizer;
  tools.vocab_size = config.vocab_size;
  auto corpus = THIMBLE_TRY(
      train::read_sources(options.held_out, tools, std::filesystem::temp_directory_path()));
  return Scored{std::move(corpus), 0};
}

// The models score the corpus; the second, if there is one, is what the first is held against.
Result<Sums> score(std::span<const std::unique_ptr<model::Model>> models,
                   const train::Corpus& corpus, base::ThreadPool& pool) {
  Sums out;
  base::Progress bar("scoring", corpus.size(), base::Progress::Unit::kCount);
  const uint64_t vocab = models[0]->config().vocab_size;
  for (size_t d = 0; d < corpus.size(); ++d) {
    const auto document = corpus[d];
    std::vector<int32_t> ids;
    for (const train::LabelledToken& t : document) ids.push_back(t.id);
    std::vector<std::vector<float>> logits;
    for (const auto& model : models) {
      logits.push_back(THIMBLE_TRY(engine::run_forced(*model, ids, engine::Cuts{}, pool)));
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      if (document[i].label < 0) continue;
      const std::span<const float> row(logits[0].data() + i * vocab, vocab);
      out.add(row, document[i].label);
      if (models.size() < 2) continue;
      out.against.add(engine::compare_rows({logits[1].data() + i * vocab, vocab}, row));
    }
    bar.add(1);
  }
  return out;
}

void print(const PerplexityFlags& flags, const Scored& scored, const Sums& sums) {
  const auto count = static_cast<double>(sums.labels);
  const double mean = sums.nats / count;
  const double right = static_cast<double>(sums.right) / count;
  const double bits_a_byte = sums.nats / std::log(2.0) / static_cast<double>(scored.bytes);
  if (flags.json) {
    nlohmann::ordered_json line = {{"labels", sums.labels},
                                   {"perplexity", std::exp(mean)},
                                   {"loss", mean},
                                   {"accuracy", right}};
    if (scored.bytes > 0) line["bits_per_byte"] = bits_a_byte;
    if (!flags.against.empty()) {
      line["against"] = flags.against;
      line["mean_kl"] = sums.against.mean_kl();
      line["max_kl"] = sums.against.max_kl();
      line["top1_agreement"] = sums.against.top1_agreement();
    }
    print_out(line.dump() + "\n");
    return;
  }
  std::string line =
      fmt::format("{} tokens predicted in {} pieces: perplexity {:.4f}, {:.4f} nats a token",
                  sums.labels, scored.corpus.size(), std::exp(mean), mean);
  if (scored.bytes > 0) line += fmt::format(", {:.4f} bits a byte", bits_a_byte);
  line += fmt::format(", right {:.2f} %\n", 100 * right);
  if (!flags.against.empty()) {
    line += fmt::format("{} against {}: mean KL {:.6f}, largest {:.6f}, same top token {:.2f} %\n",
                        flags.mode, flags.against, sums.against.mean_kl(), sums.against.max_kl(),
                        100 * sums.against.top1_agreement());
  }
  print_out(line);
}

Result<int> run(const PerplexityFlags& flags) {
  const auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(flags.model));
  const auto tokenizer = THIMBLE_TRY(engine::open_tokenizer(checkpoint));
  if (!tokenizer && flags.run.empty()) {
    return base::fail(ErrorCode::kNotFound, "{} has no tokenizer.json: text does not reach it",
                      flags.model.string());
  }
  const Scored scored =
      THIMBLE_TRY(flags.run.empty() ? read_text(flags, *tokenizer)
                                    : read_run(flags, checkpoint.config(), tokenizer));
  const auto map = THIMBLE_TRY(engine::engram_map(checkpoint, tokenizer));
  std::vector<std::unique_ptr<model::Model>> models;
  for (const std::string& mode : {flags.mode, flags.against}) {
    if (mode.empty()) continue;
    model::ModelOptions options;
    options.mode = mode_of(mode);
    options.token_map = map;
    options.packing = engine::packing_here(checkpoint);
    models.push_back(THIMBLE_TRY(model::Model::create(checkpoint, options)));
  }
  base::ThreadPool pool(flags.threads);
  const Sums sums = THIMBLE_TRY(score(models, scored.corpus, pool));
  if (sums.labels == 0) {
    return base::fail(ErrorCode::kInvalidArgument, "{} has nothing to predict",
                      (flags.run.empty() ? flags.text : flags.run).string());
  }
  print(flags, scored, sums);
  return kExitDone;
}

}  // namespace

Command eval_perplexity_command() {
  auto flags = std::make_shared<PerplexityFlags>();
  return {.name = "perplexity",
          .summary = "How well a model predicts a text",
          .details =
              "Prints the mean surprise of a token. --text: a file in pieces of --context tokens, "
              "each from nothing; bits a byte compare models with different tokenizers. --run: the "
              "held-out documents of a training run, one by one, and only what the run learns: for "
              "chat what the assistant says, for a task its answers.",
          .examples = {{"thimble eval perplexity --model DIR --text held-out.txt", ""},
                       {"thimble eval perplexity --model DIR --run train.json",
                        "the exported model against the figure of `train --score`"}},
          .describe =
              [flags](Options& options) {
                options.add("--model", flags->model, "model directory", Need::kRequired);
                options.add("--text", flags->text, "UTF-8 file");
                options.add("--run", flags->run, "JSON file of a training run");
                options.exclusive({"--text", "--run"}, Need::kRequired);
                options.choice("--mode", flags->mode, {"fast", "exact", "nokvq"}, "numeric mode");
                options.choice("--against", flags->against, {"fast", "exact", "nokvq"},
                               "also how far this mode's distributions lie from that one's");
                options.add("--context", flags->context, "tokens a piece of a text");
                options.add("--threads", flags->threads, "0: one a CPU");
                options.flag("--json", flags->json, "print JSON");
              },
          .check = [flags] { return check_range("--context", flags->context, 1, 1 << 20); },
          .run = [flags] { return run(*flags); }};
}

}  // namespace thimble::app
