#include <fmt/format.h>

#include "base/bytes.h"
#include "base/svg.h"
#include "planner/plan.h"

namespace thimble::planner {
namespace {

using base::BarChart;
using base::ChartSeries;
using base::LineChart;
using base::Scale;

std::string count_text(double value) {
  const auto whole = static_cast<uint64_t>(value);
  const double rest = value - static_cast<double>(whole);
  return base::with_commas(whole) + (rest > 0 ? fmt::format("{:.2f}", rest).substr(1) : "");
}

std::string generations_svg(const Plan& plan) {
  BarChart chart{.title = "Bytes of global KV a token",
                 .x_label = "bytes (log)",
                 .scale = Scale::kLog10,
                 .bars = {}};
  for (const CacheDesign& design : plan.generations) {
    const double bytes = design.bytes_per_token();
    chart.bars.push_back({design.name, bytes, count_text(bytes), 0});
  }
  const bool own = plan.design.bytes_per_token() != plan.generations.back().bytes_per_token();
  if (own) {
    const double bytes = plan.design.bytes_per_token();
    chart.bars.push_back({"this plan: " + plan.source, bytes, count_text(bytes), 1});
  }
  return base::to_svg("Four generations of cache", chart);
}

std::string attribution_svg(const Plan& plan) {
  BarChart chart{.title = "Bytes a token, scales counted",
                 .x_label = "bytes (log)",
                 .scale = Scale::kLog10,
                 .bars = {}};
  for (const LatticePoint& point : plan.attribution->points) {
    chart.bars.push_back(
        {fmt::format("{}, {}, {}", point.shared ? "shared" : "every layer", to_string(point.format),
                     point.compressed ? "compressed" : "every token"),
         point.bytes, count_text(point.bytes),
         static_cast<size_t>(point.shared ? 2 : 0) + (point.compressed ? 0 : 3)});
  }
  return base::to_svg("Where the bytes went", chart);
}

std::string concurrency_svg(const Plan& plan) {
  LineChart chart{.title = fmt::format("Contexts in {}, windows counted",
                                       base::human_bytes(plan.request.memory_bytes)),
                  .x_label = "tokens a context",
                  .y_label = "contexts",
                  .x_scale = Scale::kLog2,
                  .y_scale = Scale::kLog10,
                  .series = {}};
  const bool own = plan.design.bytes_per_token() != plan.generations.back().bytes_per_token();
  for (size_t i = 0; i < plan.concurrency.size(); ++i) {
    const bool last = i == plan.generations.size();
    if (last && !own) continue;
    ChartSeries series{.name = last ? "this plan" : plan.generations[i].id, .points = {}};
    for (const ConcurrencyPoint& point : plan.concurrency[i]) {
      series.points.push_back(
          {static_cast<double>(point.tokens), static_cast<double>(point.contexts.with_windows)});
    }
    chart.series.push_back(std::move(series));
  }
  return base::to_svg("Context against concurrency", {&chart, 1});
}

std::string decode_svg(const Plan& plan) {
  LineChart chart{.title = "Operations of a decoded token",
                  .x_label = "context, tokens",
                  .y_label = "1e9 operations",
                  .x_scale = Scale::kLog2,
                  .y_scale = Scale::kLinear,
                  .series = {}};
  ChartSeries plain{.name = "unweighted", .points = {}};
  ChartSeries weighted{.name = "weighted 1, 1/2, 1/4", .points = {}};
  ChartSeries index{.name = "index scores", .points = {}};
  for (const DecodePoint& point : plan.model->decode) {
    const auto context = static_cast<double>(point.context);
    plain.points.push_back({context, 1e-9 * sum(point.ops).total()});
    weighted.points.push_back({context, 1e-9 * sum(point.ops).weighted()});
    const auto scores = point.ops.find(Part::kIndex);
    const double ops = scores == point.ops.end() ? 0 : scores->second.total();
    index.points.push_back({context, 1e-9 * ops});
  }
  chart.series = {plain, weighted, index};
  return base::to_svg("Decoding against context", {&chart, 1});
}

std::string replay_svg(const Plan& plan) {
  LineChart chart{.title = fmt::format("Operations after a hit of {} tokens",
                                       base::with_commas(plan.model->replay_hit)),
                  .x_label = "new tokens",
                  .y_label = "1e12 operations",
                  .x_scale = Scale::kLog2,
                  .y_scale = Scale::kLog10,
                  .series = {{"without the hit", {}},
                             {"exact", {}},
                             {"auto", {}},
                             {"bounded", {}},
                             {"from a snapshot", {}}}};
  for (const ReplayPoint& point : plan.model->replay) {
    const double costs[] = {point.cold, point.exact, point.automatic, point.bounded,
                            point.snapshot};
    for (size_t i = 0; i < chart.series.size(); ++i) {
      chart.series[i].points.push_back({static_cast<double>(point.new_tokens), 1e-12 * costs[i]});
    }
  }
  return base::to_svg("What replay costs", {&chart, 1});
}

}  // namespace

std::vector<Chart> charts(const Plan& plan) {
  std::vector<Chart> out = {{"generations", generations_svg(plan)},
                            {"concurrency", concurrency_svg(plan)}};
  if (plan.attribution) out.push_back({"attribution", attribution_svg(plan)});
  if (plan.model) {
    out.push_back({"decode", decode_svg(plan)});
    out.push_back({"replay", replay_svg(plan)});
  }
  return out;
}

}  // namespace thimble::planner
