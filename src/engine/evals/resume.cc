#include "engine/evals/resume.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "arch/cache_layout.h"
#include "arch/row_plan.h"
#include "base/check.h"
#include "engine/forced_run.h"
#include "engine/internal/prefill.h"

namespace thimble::engine {
namespace {

constexpr uint64_t kChunk = 256;         // prompt rows a step
constexpr uint64_t kUsualDepth = 256;    // measured whatever the window
constexpr uint64_t kSpareTokens = 2048;  // of pool beside the text: tails of snapshots

using Kind = ResumeRoute::Kind;

Replay policy(Kind kind) {
  if (kind == Kind::kAuto) return Replay::kAuto;
  return kind == Kind::kBounded ? Replay::kBounded : Replay::kExact;
}

// The rows that run, exactly as the engine would choose them; depths are the evaluation's own.
arch::RowPlan rows_of(const arch::LayerPlan& plan, const ResumeRoute& route, const ResumeCut& cut) {
  const uint64_t end = cut.hit + cut.suffix;
  if (route.kind == Kind::kDepth) {
    return make_row_plan(plan, {.hit = cut.hit,
                                .windows_at = {},
                                .end = end,
                                .first_output = end - 1,
                                .depth = {route.depth, route.depth}});
  }
  Route start{.hit = cut.hit, .windows_at = {}, .marks = {}, .snapshot = nullptr};
  if (route.kind == Kind::kSnapshot) start.windows_at = cut.hit;
  return Prefill(plan, start, end, policy(route.kind), {}, false).rows();
}

// May entries that this computes differ from exact ones?
bool is_approximate(const arch::LayerPlan& plan, const arch::RowPlan& rows) {
  return std::any_of(rows.layers.begin(), rows.layers.begin() + plan.decoder_begin,
                     [](const arch::LayerRows& layer) { return layer.truncated; });
}

struct ColdRun {
  uint64_t prompt = 0;
  std::vector<float> logits;    // [1 + continuation, vocab]
  std::vector<int32_t> greedy;  // [continuation + 1]
  uint64_t layer_tokens = 0;
};

// The evaluation of one text: one cache that holds it, driven from case to case.
class TextRun {
 public:
  TextRun(const model::Model& model, std::span<const int32_t> ids, uint64_t continuation,
          base::ThreadPool& pool)
      : model_(model),
        ids_(ids),
        continuation_(continuation),
        vocab_(model.config().vocab_size),
        pool_(pool) {}

  // Runs the text up to the last of `cuts` as a server would, keeping a snapshot at each.
  Result<void> fill(std::span<const ResumeCut> cuts);
  // A prompt of `prompt` tokens in a cache of its own. Kept until another length is asked for.
  Result<const ColdRun*> cold(uint64_t prompt);
  Result<RouteRun> run(const ResumeRoute& route, const ResumeCut& cut, const ColdRun& cold);

 private:
  std::span<const int32_t> ids(uint64_t begin, uint64_t end) const {
    return ids_.subspan(begin, end - begin);
  }
  std::span<const float> row(std::span<const float> logits, uint64_t i) const {
    return logits.subspan(i * vocab_, vocab_);
  }
  Result<void> run_prompt(ForcedSequence& sequence, const arch::RowPlan& rows,
                          std::span<float> logits);
  Result<void> run_text(ForcedSequence& sequence, uint64_t from, std::span<float> logits);
  Result<std::optional<uint64_t>> greedy_difference(ForcedSequence& sequence,
                                                    std::span<const float> first,
                                                    const ColdRun& cold);
  Result<ForcedSequence> make_sequence() {
    return ForcedSequence::create(model_, ids_.size() + kSpareTokens, pool_);
  }

  const model::Model& model_;
  const std::span<const int32_t> ids_;
  const uint64_t continuation_;
  const uint64_t vocab_;
  base::ThreadPool& pool_;
  std::optional<ForcedSequence> cached_;
  std::optional<ColdRun> cold_;
};

Result<void> TextRun::fill(std::span<const ResumeCut> cuts) {
  std::vector<uint64_t> hits;
  for (const ResumeCut& cut : cuts) hits.push_back(cut.hit);
  std::ranges::sort(hits);
  hits.erase(std::unique(hits.begin(), hits.end()), hits.end());
  cached_ = THIMBLE_TRY(make_sequence());
  std::vector<float> ignored(vocab_);
  uint64_t done = 0;
  for (const uint64_t hit : hits) {
    Route start{.hit = done, .windows_at = {}, .marks = {}, .snapshot = nullptr};
    if (done > 0) start.windows_at = done;
    const Prefill prefill(model_.plan(), start, hit, Replay::kExact, {}, false);
    THIMBLE_TRY(run_prompt(*cached_, prefill.rows(), ignored));
    THIMBLE_TRY(cached_->keep_snapshot());
    done = hit;
  }
  return {};
}

Result<void> TextRun::run_prompt(ForcedSequence& sequence, const arch::RowPlan& rows,
                                 std::span<float> logits) {
  return sequence.run(ids(rows.begin, rows.end), {.plan = &rows, .chunk = kChunk, .logit_rows = 1},
                      logits.first(vocab_));
}

// The text's own tokens from `from` on, one by one; logits of each.
Result<void> TextRun::run_text(ForcedSequence& sequence, uint64_t from, std::span<float> logits) {
  for (uint64_t i = 0; i < continuation_; ++i) {
    THIMBLE_TRY(sequence.run(ids(from + i, from + i + 1), {.logit_rows = 1},
                             logits.subspan(i * vocab_, vocab_)));
  }
  return {};
}

Result<const ColdRun*> TextRun::cold(uint64_t prompt) {
  if (cold_ && cold_->prompt == prompt) return &*cold_;
  ColdRun run;
  run.prompt = prompt;
  run.logits.resize((1 + continuation_) * vocab_);
  auto sequence = THIMBLE_TRY(make_sequence());
  const auto rows = rows_of(model_.plan(), {.kind = Kind::kExact}, {.hit = 0, .suffix = prompt});
  run.layer_tokens = rows.layer_tokens();
  THIMBLE_TRY(run_prompt(sequence, rows, run.logits));
  auto branch = THIMBLE_TRY(sequence.fork());
  run.greedy.push_back(top_token(row(run.logits, 0)));
  std::vector<float> logits(vocab_);
  for (uint64_t i = 0; i < continuation_; ++i) {
    THIMBLE_TRY(branch.run(std::span(run.greedy).last(1), {.logit_rows = 1}, logits));
    run.greedy.push_back(top_token(logits));
  }
  THIMBLE_TRY(run_text(sequence, prompt, std::span(run.logits).subspan(vocab_)));
  cold_ = std::move(run);
  return &*cold_;
}

// As long as a greedy run agrees with the cold one, it is fed the same tokens.
Result<std::optional<uint64_t>> TextRun::greedy_difference(ForcedSequence& sequence,
                                                           std::span<const float> first,
                                                           const ColdRun& cold) {
  std::vector<float> logits(first.begin(), first.end());
  for (uint64_t i = 0; i < cold.greedy.size(); ++i) {
    if (top_token(logits) != cold.greedy[i]) return std::optional(i);
    if (i + 1 == cold.greedy.size()) break;
    THIMBLE_TRY(sequence.run(std::span(cold.greedy).subspan(i, 1), {.logit_rows = 1}, logits));
  }
  return std::optional<uint64_t>();
}

Result<RouteRun> TextRun::run(const ResumeRoute& route, const ResumeCut& cut, const ColdRun& cold) {
  const arch::RowPlan rows = rows_of(model_.plan(), route, cut);
  const auto windows = route.kind == Kind::kSnapshot ? ForcedSequence::Windows::kSnapshot
                                                     : ForcedSequence::Windows::kNone;
  // One token more than the hit: a prompt never finds its own last token.
  THIMBLE_TRY(cached_->reopen(ids(0, cut.hit + 1), cut.hit, rows.begin, windows));
  if (is_approximate(model_.plan(), rows)) cached_->mark_private();
  RouteRun out;
  out.replayed_tokens = rows.replayed_tokens();
  out.layer_tokens = rows.layer_tokens();
  std::vector<float> logits((1 + continuation_) * vocab_);
  THIMBLE_TRY(run_prompt(*cached_, rows, logits));
  {
    auto branch = THIMBLE_TRY(cached_->fork());
    out.greedy_differs_at = THIMBLE_TRY(greedy_difference(branch, row(logits, 0), cold));
  }
  THIMBLE_TRY(run_text(*cached_, rows.end, std::span(logits).subspan(vocab_)));
  for (uint64_t i = 0; i <= continuation_; ++i) {
    out.rows.push_back(compare_rows(row(cold.logits, i), row(logits, i)));
  }
  return out;
}

void add_to_bin(std::vector<DistanceBin>& bins, uint64_t distance, const RowDivergence& row) {
  const uint64_t from = std::bit_floor(distance);
  auto bin = std::ranges::lower_bound(bins, from, {}, &DistanceBin::from);
  if (bin == bins.end() || bin->from != from) {
    bin = bins.insert(bin, {.from = from, .to = 2 * from, .sum = {}});
  }
  bin->sum.add(row);
}

void add_to_summary(RouteSummary& summary, const ResumeCut& cut, const RouteRun& run) {
  for (size_t i = 0; i < run.rows.size(); ++i) {
    summary.sum.add(run.rows[i]);
    add_to_bin(summary.by_distance, cut.suffix + i, run.rows[i]);
  }
  summary.replayed_tokens += run.replayed_tokens;
  summary.layer_tokens += run.layer_tokens;
  if (!run.greedy_differs_at) return;
  ++summary.greedy_differs;
  const uint64_t distance = cut.suffix + *run.greedy_differs_at;
  summary.greedy_distance_min = std::min(summary.greedy_distance_min.value_or(distance), distance);
}

std::vector<ResumeRoute> all_routes(uint32_t window, std::span<const uint64_t> depths) {
  std::vector<ResumeRoute> routes = {{.kind = Kind::kSnapshot},
                                     {.kind = Kind::kExact},
                                     {.kind = Kind::kAuto},
                                     {.kind = Kind::kBounded, .depth = window}};
  for (const uint64_t depth : depths) routes.push_back({.kind = Kind::kDepth, .depth = depth});
  return routes;
}

// Cases of all texts, those of one text together, those of one prompt length together.
Result<void> collect_cases(std::span<const EvalText> texts, const ResumeOptions& options,
                           ResumeReport& report) {
  for (size_t t = 0; t < texts.size(); ++t) {
    const uint64_t tokens = texts[t].ids.size();
    auto cuts = options.cuts;
    if (cuts.empty()) cuts = default_cuts(report.window, tokens, options.continuation);
    std::erase_if(cuts, [&](const ResumeCut& cut) {
      return cut.hit > tokens || cut.suffix > tokens - cut.hit ||
             options.continuation > tokens - cut.hit - cut.suffix;
    });
    std::ranges::stable_sort(cuts, {}, [](const ResumeCut& cut) { return cut.hit + cut.suffix; });
    for (const ResumeCut& cut : cuts) {
      CHECK(cut.hit > 0 && cut.suffix > 0);
      report.cases.push_back({.text = t, .cut = cut, .routes = {}});
    }
  }
  if (!report.cases.empty()) return {};
  uint64_t longest = 0;
  for (const EvalText& text : texts) longest = std::max<uint64_t>(longest, text.ids.size());
  return base::fail(ErrorCode::kInvalidArgument,
                    "the longest text has {} tokens, which leaves no cut with {} tokens after it",
                    longest, options.continuation);
}

Result<void> collect_routes(const arch::LayerPlan& plan, const ResumeOptions& options,
                            ResumeReport& report) {
  std::vector<uint64_t> depths = options.depths;
  if (depths.empty()) {
    uint64_t longest = 0;
    for (const ResumeCase& one : report.cases) longest = std::max(longest, one.prompt_tokens());
    depths = default_depths(plan, longest);
  }
  for (const uint64_t depth : depths) {
    if (depth >= plan.window) continue;
    return base::fail(ErrorCode::kInvalidArgument,
                      "depth {} is below the model's window of {} tokens", depth, plan.window);
  }
  report.routes = all_routes(plan.window, depths);
  report.summaries.resize(report.routes.size());
  return {};
}

Result<void> run_text_cases(const model::Model& model, std::span<ResumeCase> cases,
                            ResumeReport& report, base::ThreadPool& pool,
                            const std::function<void()>& step) {
  TextRun text(model, report.texts[cases.front().text].ids, report.continuation, pool);
  std::vector<ResumeCut> cuts;
  for (const ResumeCase& one : cases) cuts.push_back(one.cut);
  THIMBLE_TRY(text.fill(cuts));
  for (ResumeCase& one : cases) {
    const ColdRun* cold = THIMBLE_TRY(text.cold(one.prompt_tokens()));
    one.cold_layer_tokens = cold->layer_tokens;
    step();
    for (size_t r = 0; r < report.routes.size(); ++r) {
      one.routes.push_back(THIMBLE_TRY(
          base::in(text.run(report.routes[r], one.cut, *cold), report.routes[r].name())));
      add_to_summary(report.summaries[r], one.cut, one.routes.back());
      step();
    }
  }
  return {};
}

}  // namespace

std::string ResumeRoute::name() const {
  switch (kind) {
    case Kind::kSnapshot:
      return "snapshot";
    case Kind::kExact:
      return "exact";
    case Kind::kAuto:
      return "auto";
    case Kind::kBounded:
      return "bounded";
    case Kind::kDepth:
      return fmt::format("depth_{}", depth);
  }
  return "?";
}

bool ResumeReport::exact_routes_hold() const {
  for (size_t r = 0; r < routes.size(); ++r) {
    if (routes[r].must_be_exact() && !summaries[r].sum.bit_equal()) return false;
  }
  return true;
}

std::vector<ResumeCut> default_cuts(uint32_t window, uint64_t tokens, uint64_t continuation) {
  if (tokens < continuation + 2) return {};
  const uint64_t end = tokens - continuation;  // longest prompt
  constexpr uint64_t kBlock = arch::kBlockTokens;
  const uint64_t odd = end / 2 | 1;
  const uint64_t far = end - end / 4;
  const ResumeCut wanted[] = {
      {window - 1, 1},
      {window + 1, 2},
      {kBlock, 1},
      {kBlock + 1, window},
      {odd, 1},
      {odd, window / 2},
      {odd, 2 * uint64_t{window}},
      {far, 4},
      {far, end - far},
      {end - 1, 1},
  };
  std::vector<ResumeCut> cuts;
  for (const ResumeCut& cut : wanted) {
    if (cut.hit > 0 && cut.suffix > 0 && cut.hit + cut.suffix <= end) cuts.push_back(cut);
  }
  return cuts;
}

uint64_t exact_depth(const arch::LayerPlan& plan) {
  return std::max(uint64_t{plan.window - 1} * plan.layers.size(), arch::decoder_cone(plan));
}

std::vector<uint64_t> default_depths(const arch::LayerPlan& plan, uint64_t prompt_tokens) {
  const uint64_t covered = std::min(exact_depth(plan), prompt_tokens);
  std::vector<uint64_t> depths;
  for (uint64_t depth = plan.window; depth < covered;) depths.push_back(depth *= 2);
  if (prompt_tokens > kUsualDepth && plan.window < kUsualDepth) depths.push_back(kUsualDepth);
  std::ranges::sort(depths);
  depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
  return depths;
}

Result<ResumeReport> evaluate_resume(const model::Model& model, std::span<const EvalText> texts,
                                     const ResumeOptions& options, base::ThreadPool& pool) {
  ResumeReport report;
  report.window = model.plan().window;
  report.exact_depth = exact_depth(model.plan());
  report.continuation = options.continuation;
  report.texts.assign(texts.begin(), texts.end());
  THIMBLE_TRY(collect_cases(texts, options, report));
  THIMBLE_TRY(collect_routes(model.plan(), options, report));
  const uint64_t total = report.cases.size() * (1 + report.routes.size());
  uint64_t done = 0;
  const auto step = [&] {
    if (options.progress) options.progress(++done, total);
  };
  for (size_t first = 0; first < report.cases.size();) {
    size_t last = first;
    while (last < report.cases.size() && report.cases[last].text == report.cases[first].text) {
      ++last;
    }
    const auto cases = std::span(report.cases).subspan(first, last - first);
    THIMBLE_TRY(base::in(run_text_cases(model, cases, report, pool, step),
                         report.texts[cases.front().text].name));
    first = last;
  }
  return report;
}

}  // namespace thimble::engine
