// Line and bar charts as SVG, for reports that people open in a browser: axes, ticks, legend, no
// scripts.
//
// 820 pixels wide. Colours are told apart by colour-blind readers too; paper and ink follow the
// reader's light or dark theme, and a page that carries a chart may set its variables (--paper,
// --ink, --grid, --frame). Text is escaped, so names may come from anywhere. On a logarithmic axis
// a value of 0 has a line of its own at the near end, labelled 0; negative and non-finite values
// are left out.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thimble::base {

enum class Scale { kLinear, kLog2, kLog10 };

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // joined in this order
};

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  Scale x_scale = Scale::kLinear;
  Scale y_scale = Scale::kLinear;
  std::vector<ChartSeries> series;
};

// One document, the charts below each other under `title`.
std::string to_svg(std::string_view title, std::span<const LineChart> charts);

struct ChartBar {
  std::string name;
  double value = 0;
  std::string label;  // at the bar's end
  size_t colour = 0;  // bars of one colour belong together
};

// Bars from left to right, one below the other.
struct BarChart {
  std::string title;
  std::string x_label;
  Scale scale = Scale::kLinear;  // from 0, or from a power of the base below the least value
  std::vector<ChartBar> bars;
};

std::string to_svg(std::string_view title, const BarChart& chart);

// `text` as XML character data or attribute value; bytes that XML forbids become spaces.
std::string xml_escaped(std::string_view text);

}  // namespace thimble::base
