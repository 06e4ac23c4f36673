#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/thimble/eval/commands.h"
#include "apps/thimble/eval/endpoint_resume.h"
#include "apps/thimble/eval/resume_report.h"
#include "apps/thimble/eval/texts.h"
#include "apps/thimble/mode_flag.h"
#include "arch/checkpoint.h"
#include "base/random.h"
#include "base/terminal.h"
#include "engine/engine.h"
#include "engine/model_files.h"
#include "text/special_tokens.h"
#include "text/utf8.h"

namespace thimble::app {
namespace {

constexpr uint64_t kRandomTokens = 1500;  // of a text for a model without a tokenizer
constexpr uint64_t kRandomSeed = 1;
constexpr uint64_t kLongest =
    1 << 20;  // of what is counted in tokens or seconds on the command line

struct ResumeFlags {
  std::string model;
  Path text;
  bool json = false;
  Path chart;
  std::string mode = "fast";
  uint32_t threads = 0;
  std::string cuts;
  std::string depths;
  uint32_t tokens = 16;
  std::string url;
  std::string api_key;
  std::string replay;
  uint32_t idle = 5;
};

Result<uint64_t> parse_count(std::string_view text, const char* flag, const char* form) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && next == end && value > 0 && value <= kLongest) return value;
  return base::fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is not a number from 1 to {}; {}",
                    flag, base::printable(text, 24), kLongest, form);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

Result<std::vector<uint64_t>> parse_depths(const std::string& text) {
  std::vector<uint64_t> depths;
  for (const std::string_view part : split(text)) {
    depths.push_back(THIMBLE_TRY(parse_count(part, "--depths", "expected N,N,...")));
  }
  std::ranges::sort(depths);
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  return depths;
}

Result<std::vector<engine::ResumeCut>> parse_cuts(const std::string& text) {
  constexpr const char* kForm = "expected CACHED+NEW,... such as 300+20,64+1";
  std::vector<engine::ResumeCut> cuts;
  for (const std::string_view part : split(text)) {
    const size_t plus = std::min(part.find('+'), part.size());
    engine::ResumeCut cut;
    cut.hit = THIMBLE_TRY(parse_count(part.substr(0, plus), "--cuts", kForm));
    cut.suffix =
        THIMBLE_TRY(parse_count(part.substr(std::min(plus + 1, part.size())), "--cuts", kForm));
    cuts.push_back(cut);
  }
  return cuts;
}

Result<void> check(const ResumeFlags& flags) {
  const auto refuse = [](const char* why) {
    return base::fail(ErrorCode::kInvalidArgument, "{}", why);
  };
  if (flags.url.empty()) {
    if (flags.model.empty()) return refuse("--model DIR or --url URL is missing");
    if (!flags.api_key.empty() || !flags.replay.empty()) {
      return refuse("--api-key and --replay are for a server: they go with --url");
    }
  } else {
    THIMBLE_TRY(base::in(net::parse_http_url(flags.url), "--url"));
    if (!flags.chart.empty() || !flags.cuts.empty() || !flags.depths.empty()) {
      return refuse("--svg, --cuts and --depths look inside a model: they do not go with --url");
    }
  }
  THIMBLE_TRY(check_range("--threads", flags.threads, 0, engine::kThreadsMax));
  THIMBLE_TRY(check_range("--tokens", flags.tokens, 1, kLongest));
  THIMBLE_TRY(check_range("--idle", flags.idle, 0, kLongest));
  THIMBLE_TRY(parse_depths(flags.depths));
  THIMBLE_TRY(parse_cuts(flags.cuts));
  return {};
}

// What --text names, or the built-in ones.
Result<std::vector<EndpointText>> texts_to_read(const ResumeFlags& flags) {
  std::vector<EndpointText> texts;
  if (flags.text.empty()) {
    for (const BuiltInText& text : built_in_texts()) {
      texts.push_back({std::string(text.name), std::string(text.text)});
    }
    return texts;
  }
  auto content = THIMBLE_TRY(base::read_file(flags.text));
  if (content.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "{} is empty", flags.text.string());
  }
  texts.push_back({flags.text.filename().string(), std::move(content)});
  return texts;
}

// BOS, where the vocabulary has one, and the text; control tokens in it are text.
std::vector<engine::EvalText> encode(const std::vector<EndpointText>& texts,
                                     const text::Tokenizer& tokenizer) {
  std::vector<engine::EvalText> out;
  for (const EndpointText& one : texts) {
    auto ids = tokenizer.encode(one.text, text::AddedTokens::kPlain);
    if (const auto bos = tokenizer.find_added(text::kBosText)) ids.insert(ids.begin(), *bos);
    out.push_back({one.name, std::move(ids)});
  }
  return out;
}

std::vector<engine::EvalText> random_ids(uint32_t vocab_size, uint64_t tokens_max) {
  base::SplitMix64 random(kRandomSeed);
  engine::EvalText text{.name = "random ids", .ids = {}};
  for (uint64_t i = 0; i < std::min(kRandomTokens, tokens_max); ++i) {
    text.ids.push_back(static_cast<int32_t>(random.below(vocab_size)));
  }
  return {std::move(text)};
}

// No position beyond what the model was made for.
void shorten(std::vector<engine::EvalText>& texts, uint64_t tokens_max) {
  for (engine::EvalText& text : texts) {
    if (text.ids.size() > tokens_max) text.ids.resize(tokens_max);
  }
}

Result<engine::ResumeReport> evaluate(const ResumeFlags& flags, ResumeSubject& subject) {
  const auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(flags.model));
  const auto tokenizer = THIMBLE_TRY(engine::open_tokenizer(checkpoint));
  const auto token_map = THIMBLE_TRY(engine::engram_map(checkpoint, tokenizer));
  const uint64_t tokens_max = checkpoint.config().max_position_embeddings;
  std::vector<engine::EvalText> texts;
  if (tokenizer) {
    texts = encode(THIMBLE_TRY(texts_to_read(flags)), *tokenizer);
    shorten(texts, tokens_max);
  } else if (!flags.text.empty()) {
    return base::fail(ErrorCode::kNotFound,
                      "{} has no tokenizer.json, so it cannot read {}; without --text random token "
                      "ids are used",
                      flags.model, flags.text.string());
  } else {
    texts = random_ids(checkpoint.config().vocab_size, tokens_max);
    subject.note =
        fmt::format("This model has no tokenizer: its text is random ids, seed {}.", kRandomSeed);
  }
  model::ModelOptions model_options;
  model_options.mode = mode_of(flags.mode);
  model_options.token_map = token_map;
  model_options.packing = engine::packing_here(checkpoint);
  const auto model = THIMBLE_TRY(model::Model::create(checkpoint, model_options));
  base::ThreadPool pool(flags.threads);
  engine::ResumeOptions options;
  options.cuts = THIMBLE_TRY(parse_cuts(flags.cuts));
  options.depths = THIMBLE_TRY(parse_depths(flags.depths));
  options.continuation = flags.tokens;
  std::optional<base::Progress> bar;
  options.progress = [&bar](uint64_t, uint64_t total) {
    if (!bar) bar.emplace("resuming", total, base::Progress::Unit::kCount);
    bar->add(1);
  };
  return engine::evaluate_resume(*model, texts, options, pool);
}

Result<int> run_on_model(const ResumeFlags& flags) {
  ResumeSubject subject{.model = flags.model, .mode = flags.mode, .note = {}};
  const auto report = THIMBLE_TRY(evaluate(flags, subject));
  if (!flags.chart.empty()) {
    THIMBLE_TRY(base::write_file_atomic(flags.chart, to_chart(subject, report)));
  }
  if (flags.json) {
    print_out(to_json(subject, report).dump(2) + "\n");
  } else {
    print_out(to_table(subject, report));
  }
  std::fflush(stdout);
  if (!flags.chart.empty()) fmt::print(stderr, "chart written to {}\n", flags.chart.string());
  return report.exact_routes_hold() ? kExitDone : kExitFailed;
}

Result<int> run_on_endpoint(const ResumeFlags& flags) {
  EndpointEvaluation evaluation;
  evaluation.texts = THIMBLE_TRY(texts_to_read(flags));
  for (EndpointText& text : evaluation.texts) text.text = text::to_valid_utf8(text.text);
  evaluation.answer_tokens = flags.tokens;
  evaluation.idle_seconds = flags.idle;
  auto endpoint = THIMBLE_TRY(Endpoint::open(
      {.url = flags.url, .api_key = flags.api_key, .model = flags.model, .replay = flags.replay}));
  std::optional<base::Progress> bar;
  bar.emplace("asking", endpoint_steps(evaluation), base::Progress::Unit::kCount);
  evaluation.progress = [&bar] { bar->add(1); };
  const auto report = THIMBLE_TRY(evaluate_endpoint(endpoint, evaluation));
  bar.reset();  // ends its line
  if (flags.json) {
    print_out(to_json(report).dump(2) + "\n");
  } else {
    print_out(to_table(report));
  }
  return kExitDone;
}

void describe(ResumeFlags& flags, Options& options) {
  options.add("--model", flags.model, "directory of the model; with --url its name there");
  options.add("--text", flags.text, "file to read instead of the built-in story and program");
  options.flag("--json", flags.json, "everything as JSON, each case included");
  options.add("--svg", flags.chart, "write charts: differences against depth and distance");
  options.choice("--mode", flags.mode, {"fast", "exact", "nokvq"}, "arithmetic (docs/numerics.md)");
  options.add("--threads", flags.threads, "compute threads; 0: one per CPU");
  options.add("--cuts", flags.cuts, "CACHED+NEW tokens of each prompt, as in 300+20,64+1");
  options.add("--depths", flags.depths,
              "rows to rebuild, as in 128,256; the window is always there");
  options.add("--tokens", flags.tokens, "tokens that follow each prompt");
  options.add("--url", flags.url, "ask this OpenAI-compatible server instead (http://)");
  options.add("--api-key", flags.api_key, "for that server");
  options.add("--replay", flags.replay, "the request field of that name (thimble's own)");
  options.add("--idle", flags.idle, "seconds before the last of its equal requests");
}

}  // namespace

Command eval_resume_command() {
  auto flags = std::make_shared<ResumeFlags>();
  return {
      .name = "resume",
      .summary = "Compare answers after a cached prefix with cold ones",
      .details =
          "Runs texts cold, then again with their beginning cached, by every route that a server "
          "may take from there, and shows how far logits and greedy continuations move. Status 1 "
          "when a route that should be exact differs in a single bit. With --url it asks a running "
          "server the same question from outside. How to read it: docs/eval.md.",
      .examples = {{"thimble eval resume --model DIR", "a table"},
                   {"thimble eval resume --model DIR --json --svg FILE", ""},
                   {"thimble eval resume --model DIR --text book.txt --cuts 5000+40", ""},
                   {"thimble eval resume --url http://localhost:8080", "any OpenAI server"}},
      .describe = [flags](Options& options) { describe(*flags, options); },
      .check = [flags] { return check(*flags); },
      .run =
          [flags] { return flags->url.empty() ? run_on_model(*flags) : run_on_endpoint(*flags); }};
}

}  // namespace thimble::app
