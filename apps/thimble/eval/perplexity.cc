#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "apps/thimble/eval/commands.h"
#include "apps/thimble/mode_flag.h"
#include "arch/checkpoint.h"
#include "base/terminal.h"
#include "engine/forced_run.h"
#include "engine/model_files.h"

namespace thimble::app {
namespace {

struct PerplexityFlags {
  Path model;
  Path text;
  std::string mode = "fast";
  uint64_t context = 512;
  uint32_t threads = 0;
};

struct Sums {
  double nats = 0;
  uint64_t tokens = 0;  // predicted
};

// -log softmax(logits)[label].
double nats_of(std::span<const float> logits, int32_t label) {
  float top = logits[0];
  for (const float l : logits) top = std::max(top, l);
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l - top));
  return std::log(sum) - static_cast<double>(logits[static_cast<size_t>(label)] - top);
}

Result<Sums> score(const model::Model& model, std::span<const int32_t> ids, uint64_t context,
                   base::ThreadPool& pool) {
  Sums out;
  base::Progress bar("scoring", ids.size(), base::Progress::Unit::kCount);
  const uint64_t vocab = model.config().vocab_size;
  for (size_t begin = 0; begin + 1 < ids.size(); begin += context) {
    const auto piece = ids.subspan(begin, std::min<size_t>(context + 1, ids.size() - begin));
    const auto logits =
        THIMBLE_TRY(engine::run_forced(model, piece.first(piece.size() - 1), engine::Cuts{}, pool));
    for (size_t i = 0; i + 1 < piece.size(); ++i) {
      out.nats += nats_of({logits.data() + i * vocab, vocab}, piece[i + 1]);
    }
    out.tokens += piece.size() - 1;
    bar.add(piece.size() - 1);
  }
  return out;
}

Result<int> run(const PerplexityFlags& flags) {
  const auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(flags.model));
  const auto tokenizer = THIMBLE_TRY(engine::open_tokenizer(checkpoint));
  if (!tokenizer) {
    return base::fail(ErrorCode::kNotFound, "{} has no tokenizer.json: text does not reach it",
                      flags.model.string());
  }
  const auto map = THIMBLE_TRY(engine::engram_map(checkpoint, tokenizer));
  const std::string text = THIMBLE_TRY(base::read_file(flags.text));
  const auto ids = tokenizer->encode(text, text::AddedTokens::kPlain);
  if (ids.size() < 2) {
    return base::fail(ErrorCode::kInvalidArgument, "{} has {} tokens; nothing to predict",
                      flags.text.string(), ids.size());
  }
  model::ModelOptions options;
  options.mode = mode_of(flags.mode);
  options.token_map = map;
  options.packing = engine::packing_here(checkpoint);
  const auto model = THIMBLE_TRY(model::Model::create(checkpoint, options));
  base::ThreadPool pool(flags.threads);
  const Sums sums = THIMBLE_TRY(score(*model, ids, flags.context, pool));
  const double mean = sums.nats / static_cast<double>(sums.tokens);
  print_out(fmt::format(
      "{} tokens, {} bytes, context {}: perplexity {:.4f}, {:.4f} nats a token, {:.4f} bits a "
      "byte\n",
      sums.tokens, text.size(), flags.context, std::exp(mean), mean,
      sums.nats / std::log(2.0) / static_cast<double>(text.size())));
  return kExitDone;
}

}  // namespace

Command eval_perplexity_command() {
  auto flags = std::make_shared<PerplexityFlags>();
  return {.name = "perplexity",
          .summary = "How well a model predicts a text",
          .details =
              "Runs the text through the model in pieces of --context tokens, each from nothing, "
              "and prints the mean surprise of a token. Bits a byte compare models with different "
              "tokenizers.",
          .examples = {{"thimble eval perplexity --model DIR --text held-out.txt", ""}},
          .describe =
              [flags](Options& options) {
                options.add("--model", flags->model, "model directory", Need::kRequired);
                options.add("--text", flags->text, "UTF-8 file", Need::kRequired);
                options.choice("--mode", flags->mode, {"fast", "exact"}, "numeric mode");
                options.add("--context", flags->context, "tokens a piece");
                options.add("--threads", flags->threads, "0: one a CPU");
              },
          .check = [flags] { return check_range("--context", flags->context, 1, 1 << 20); },
          .run = [flags] { return run(*flags); }};
}

}  // namespace thimble::app
