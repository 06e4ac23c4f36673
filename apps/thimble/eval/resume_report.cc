#include "apps/thimble/eval/resume_report.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/svg.h"
#include "base/terminal.h"

namespace thimble::app {
namespace {

using engine::DivergenceSum;
using engine::ResumeReport;
using engine::ResumeRoute;
using engine::RouteSummary;
using Kind = ResumeRoute::Kind;
using Json = nlohmann::ordered_json;

std::string figure(double value) { return value == 0 ? "0" : fmt::format("{:.2e}", value); }

std::string greedy_text(const RouteSummary& summary, size_t cases) {
  if (!summary.greedy_distance_min) return "never";
  return fmt::format("{} of {}, at +{}", summary.greedy_differs, cases,
                     *summary.greedy_distance_min);
}

uint64_t cold_work(const ResumeReport& report) {
  uint64_t sum = 0;
  for (const engine::ResumeCase& one : report.cases) sum += one.cold_layer_tokens;
  return sum;
}

std::string row(const ResumeReport& report, size_t route) {
  const RouteSummary& summary = report.summaries[route];
  const double work =
      100 * static_cast<double>(summary.layer_tokens) / static_cast<double>(cold_work(report));
  return fmt::format(
      "{:<12}{:>12}{:>13}{:>12}{:>8.2f} %  {:<19}{:>9.0f}{:>7.0f} %\n", report.routes[route].name(),
      figure(summary.sum.max_abs()), figure(summary.sum.mean_abs()), figure(summary.sum.mean_kl()),
      100 * summary.sum.top1_agreement(), greedy_text(summary, report.cases.size()),
      static_cast<double>(summary.replayed_tokens) / static_cast<double>(report.cases.size()),
      work);
}

std::string notes(const ResumeReport& report) {
  std::string out = fmt::format(
      "snapshot  the windows were kept: nothing runs again\n"
      "exact     they are rebuilt row by row, as deep as the layers reach\n"
      "auto      what `serve` does: entries exact, decoder windows bounded for short new text\n"
      "bounded   one window of {} rows runs again in either half\n"
      "depth_N   N rows run again; from {} on nothing differs\n",
      report.window, report.exact_depth);
  out += fmt::format(
      "\n|dlogit|: absolute difference from the cold run's logits, over {} positions a case. KL:\n"
      "of the next token's probabilities, in nats. greedy: cases whose own continuation changes,\n"
      "and how far behind the boundary the first one does. again: prompt rows below the boundary\n"
      "that ran again, a case. work: layers times rows, of the cold run's.\n",
      report.continuation + 1);
  return out;
}

// JSON knows no infinity and no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const DivergenceSum& sum) {
  return {{"rows", sum.rows()},
          {"max_abs_logit_diff", number(sum.max_abs())},
          {"mean_abs_logit_diff", number(sum.mean_abs())},
          {"mean_kl", number(sum.mean_kl())},
          {"max_kl", number(sum.max_kl())},
          {"top1_agreement", number(sum.top1_agreement())},
          {"bit_equal", sum.bit_equal()}};
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json summary_json(const ResumeReport& report, size_t route) {
  const RouteSummary& summary = report.summaries[route];
  Json out = to_json(summary.sum);
  out["greedy_differs"] = summary.greedy_differs;
  out["first_greedy_difference_distance"] = or_null(summary.greedy_distance_min);
  out["replayed_tokens"] = summary.replayed_tokens;
  out["layer_tokens"] = summary.layer_tokens;
  if (report.routes[route].depth > 0) out["depth"] = report.routes[route].depth;
  out["by_distance"] = Json::array();
  for (const engine::DistanceBin& bin : summary.by_distance) {
    Json entry = {{"from", bin.from}, {"to", bin.to}};
    entry.update(to_json(bin.sum));
    out["by_distance"].push_back(std::move(entry));
  }
  return out;
}

Json case_json(const ResumeReport& report, const engine::ResumeCase& one) {
  Json routes = Json::object();
  for (size_t r = 0; r < one.routes.size(); ++r) {
    const engine::RouteRun& run = one.routes[r];
    DivergenceSum sum;
    for (const engine::RowDivergence& divergence : run.rows) sum.add(divergence);
    Json entry = to_json(sum);
    entry["first_greedy_difference"] = nullptr;
    if (run.greedy_differs_at) {
      entry["first_greedy_difference"] = {{"token", *run.greedy_differs_at},
                                          {"distance", one.cut.suffix + *run.greedy_differs_at}};
    }
    entry["replayed_tokens"] = run.replayed_tokens;
    entry["layer_tokens"] = run.layer_tokens;
    routes[report.routes[r].name()] = std::move(entry);
  }
  return {{"text", report.texts[one.text].name},
          {"hit_tokens", one.cut.hit},
          {"prompt_tokens", one.prompt_tokens()},
          {"cold_layer_tokens", one.cold_layer_tokens},
          {"routes", std::move(routes)}};
}

using Figure = std::function<double(const DivergenceSum&)>;

base::LineChart by_distance(const ResumeReport& report, const char* title, const char* label,
                            const Figure& figure_of) {
  base::LineChart chart{.title = title,
                        .x_label = "tokens from the boundary",
                        .y_label = label,
                        .x_scale = base::Scale::kLog2,
                        .y_scale = base::Scale::kLog10,
                        .series = {}};
  for (size_t r = 0; r < report.routes.size(); ++r) {
    if (report.routes[r].must_be_exact()) continue;
    base::ChartSeries series{.name = report.routes[r].name(), .points = {}};
    for (const engine::DistanceBin& bin : report.summaries[r].by_distance) {
      series.points.push_back({static_cast<double>(bin.from), figure_of(bin.sum)});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

base::LineChart by_depth(const ResumeReport& report) {
  base::LineChart chart{.title = "What is left at each depth",
                        .x_label = "rows rebuilt (depth)",
                        .y_label = "difference from the cold run",
                        .x_scale = base::Scale::kLog2,
                        .y_scale = base::Scale::kLog10,
                        .series = {}};
  const std::pair<const char*, Figure> figures[] = {
      {"max |\u0394logit|", [](const DivergenceSum& sum) { return sum.max_abs(); }},
      {"mean |\u0394logit|", [](const DivergenceSum& sum) { return sum.mean_abs(); }},
      {"mean KL, nats", [](const DivergenceSum& sum) { return sum.mean_kl(); }}};
  for (const auto& [name, figure_of] : figures) {
    base::ChartSeries series{.name = name, .points = {}};
    for (size_t r = 0; r < report.routes.size(); ++r) {
      if (report.routes[r].depth == 0) continue;
      series.points.push_back(
          {static_cast<double>(report.routes[r].depth), figure_of(report.summaries[r].sum)});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::string to_table(const ResumeSubject& subject, const ResumeReport& report) {
  uint64_t tokens = 0;
  for (const engine::EvalText& text : report.texts) tokens += text.ids.size();
  std::string out =
      fmt::format("{} ({}): {} of {} tokens, {} at window {}, each against a cold run\n",
                  subject.model, subject.mode, base::counted(report.texts.size(), "text", "texts"),
                  tokens, base::counted(report.cases.size(), "cut", "cuts"), report.window);
  if (!subject.note.empty()) out += subject.note + "\n";
  out += base::styled(
      base::Stream::kOut, base::Style::kBold,
      fmt::format("\n{:<12}{:>12}{:>13}{:>12}{:>10}  {:<19}{:>9}{:>9}", "route", "max|dlogit|",
                  "mean|dlogit|", "mean KL", "top-1", "greedy differs", "again", "work"));
  out += '\n';
  for (size_t r = 0; r < report.routes.size(); ++r) out += row(report, r);
  out += "\n" + notes(report) + "\n";
  out += report.exact_routes_hold()
             ? base::styled(base::Stream::kOut, base::Style::kGreen,
                            "snapshot and exact: every bit is the cold run's.")
             : base::styled(base::Stream::kOut, base::Style::kRed,
                            "snapshot and exact should be the cold run's bits and are not: a "
                            "defect of thimble.");
  return out + "\n";
}

Json to_json(const ResumeSubject& subject, const ResumeReport& report) {
  Json out = {{"model", subject.model},
              {"mode", subject.mode},
              {"window", report.window},
              {"exact_depth", report.exact_depth},
              {"continuation_tokens", report.continuation},
              {"exact_routes_hold", report.exact_routes_hold()}};
  if (!subject.note.empty()) out["note"] = subject.note;
  out["texts"] = Json::array();
  for (const engine::EvalText& text : report.texts) {
    out["texts"].push_back({{"name", text.name}, {"tokens", text.ids.size()}});
  }
  out["routes"] = Json::object();
  for (size_t r = 0; r < report.routes.size(); ++r) {
    out["routes"][report.routes[r].name()] = summary_json(report, r);
  }
  out["cases"] = Json::array();
  for (const engine::ResumeCase& one : report.cases) out["cases"].push_back(case_json(report, one));
  return out;
}

std::string to_chart(const ResumeSubject& subject, const ResumeReport& report) {
  const std::vector<base::LineChart> charts = {
      by_depth(report),
      by_distance(report, "How far it reaches: logits", "mean |\u0394logit|",
                  [](const DivergenceSum& sum) { return sum.mean_abs(); }),
      by_distance(report, "How far it reaches: probabilities", "mean KL, nats",
                  [](const DivergenceSum& sum) { return sum.mean_kl(); })};
  return base::to_svg(fmt::format("Error budget of bounded replay: {}", subject.model), charts);
}

}  // namespace thimble::app
