#include "train/report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/svg.h"

namespace thimble::train {
namespace {

std::vector<std::string> split(std::string_view line, char at) {
  std::vector<std::string> out;
  while (true) {
    const size_t end = line.find(at);
    out.emplace_back(line.substr(0, end));
    if (end == std::string_view::npos) return out;
    line.remove_prefix(end + 1);
  }
}

double number(const std::string& text) {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// All column names, in order of first appearance.
std::vector<std::string> columns(const std::vector<StepReport>& reports) {
  std::vector<std::string> out;
  for (const StepReport& r : reports) {
    for (const auto& [name, value] : r.figures) {
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
    }
  }
  return out;
}

base::LineChart chart(std::string title, std::string y, const std::vector<std::string>& names,
                      const std::vector<StepReport>& reports) {
  base::LineChart out;
  out.title = std::move(title);
  out.x_label = "step";
  out.y_label = std::move(y);
  for (const std::string& name : names) {
    base::ChartSeries series{.name = name, .points = {}};
    for (const StepReport& r : reports) {
      const double value = r.figure(name);
      if (std::isfinite(value)) series.points.push_back({static_cast<double>(r.step), value});
    }
    if (!series.points.empty()) out.series.push_back(std::move(series));
  }
  return out;
}

}  // namespace

double StepReport::figure(std::string_view name) const {
  for (const auto& [n, value] : figures) {
    if (n == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Path curves_picture(const Path& folder) { return (folder / "curves").replace_extension("svg"); }

Result<std::vector<StepReport>> read_curves(const Path& csv, uint64_t step) {
  std::vector<StepReport> out;
  if (!std::filesystem::exists(csv)) return out;
  const std::string text = THIMBLE_TRY(base::read_file(csv));
  const std::vector<std::string> lines = split(text, '\n');
  const std::vector<std::string> names = split(lines[0], ',');
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = split(lines[i], ',');
    if (cells.size() < 2 || cells.size() != names.size()) continue;
    StepReport report;
    report.step = static_cast<uint64_t>(number(cells[0]));
    report.tokens = static_cast<uint64_t>(number(cells[1]));
    for (size_t k = 2; k < cells.size(); ++k) {
      if (!cells[k].empty()) report.figures.emplace_back(names[k], number(cells[k]));
    }
    if (report.step <= step) out.push_back(std::move(report));
  }
  return out;
}

Result<void> write_curves(const Path& folder, const std::vector<StepReport>& reports) {
  const std::vector<std::string> names = columns(reports);
  std::string csv = "step,tokens";
  for (const std::string& name : names) csv += "," + name;
  csv += "\n";
  for (const StepReport& r : reports) {
    csv += fmt::format("{},{}", r.step, r.tokens);
    for (const std::string& name : names) {
      const double value = r.figure(name);
      csv += std::isfinite(value) ? fmt::format(",{:.6g}", value) : ",";
    }
    csv += "\n";
  }
  THIMBLE_TRY(base::write_file_atomic(folder / "curves.csv", csv));
  const std::vector<base::LineChart> charts = {
      chart("Loss", "nats a token", {"loss", "held_out"}, reports),
      chart("Balance of experts", "1 is even", {"entropy_mean", "entropy_min"}, reports),
      chart("Indexer", "share", {"captured", "mass", "bound"}, reports),
      chart("Gradient norm", "norm", {"gradient"}, reports)};
  return base::write_file_atomic(curves_picture(folder), base::to_svg("Training", charts));
}

}  // namespace thimble::train
