#include "base/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/bytes.h"

namespace thimble::base {
namespace {

constexpr double kWidth = 820;
constexpr double kHeadHeight = 48;
constexpr double kChartHeight = 380;
constexpr double kLeft = 92;  // of the plot area within a chart
constexpr double kRight = 640;
constexpr double kTop = 44;
constexpr double kBottom = 316;
constexpr double kZeroBand = 26;  // between the line of zeros and the least value
constexpr size_t kTicksMax = 9;

// Okabe and Ito's set, less its yellow, which is faint on white, and its black, which is the ink.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
constexpr std::array kDashes = {"", "6 4", "2 3"};  // once the colours are used up

// One axis: values to pixels, from `near` (the origin's end) to `far`.
class Axis {
 public:
  Axis(Scale scale, double near, double far) : scale_(scale), near_(near), far_(far) {}

  bool accepts(double value) const {
    return std::isfinite(value) && (scale_ == Scale::kLinear || value >= 0);
  }
  void include(double value) {
    if (value == 0 && scale_ != Scale::kLinear) {
      has_zero_ = true;
      return;
    }
    low_ = std::min(low_, transformed(value));
    high_ = std::max(high_, transformed(value));
  }
  // After the last include().
  void close() {
    if (low_ > high_) low_ = 0, high_ = 1;
    if (scale_ == Scale::kLog10) low_ = std::floor(low_), high_ = std::ceil(high_);
    if (scale_ == Scale::kLinear) {
      step_ = nice_step(high_ - low_);
      low_ = std::floor(low_ / step_) * step_;
      high_ = std::ceil(high_ / step_) * step_;
    }
    if (low_ == high_) high_ += 1;
  }
  double pixel(double value) const {
    if (value == 0 && scale_ != Scale::kLinear) return near_;
    const double begin = has_zero_ ? near_ + std::copysign(kZeroBand, far_ - near_) : near_;
    return begin + (transformed(value) - low_) / (high_ - low_) * (far_ - begin);
  }
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (has_zero_) ticks.push_back(0);
    const double step = scale_ == Scale::kLinear ? step_ : whole_step(high_ - low_);
    const double first = std::ceil(low_ / step - 1e-9) * step;
    for (int i = 0; first + i * step <= high_ + 1e-9 * step; ++i) {
      const double at = first + i * step;
      ticks.push_back(scale_ == Scale::kLinear ? at : std::pow(base(), at));
    }
    return ticks;
  }

 private:
  double base() const { return scale_ == Scale::kLog2 ? 2 : 10; }
  double transformed(double value) const {
    if (scale_ == Scale::kLinear) return value;
    return scale_ == Scale::kLog2 ? std::log2(value) : std::log10(value);
  }
  // 1, 2 or 5 times a power of ten, so that there are about five steps.
  static double nice_step(double range) {
    if (range <= 0) return 1;
    const double unit = std::pow(10, std::floor(std::log10(range / 5)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (range / (unit * factor) <= 6) return unit * factor;
    }
    return unit * 10;
  }
  static double whole_step(double range) {
    return std::max(1.0, std::ceil(range / static_cast<double>(kTicksMax)));
  }

  Scale scale_;
  double near_;
  double far_;
  double low_ = std::numeric_limits<double>::infinity();  // transformed
  double high_ = -std::numeric_limits<double>::infinity();
  double step_ = 1;
  bool has_zero_ = false;
};

// 262144 is 256Ki on an axis of powers of two, 10000 is 10,000 elsewhere.
std::string tick_text(double value, Scale scale) {
  const auto whole = static_cast<uint64_t>(std::abs(value) < 1e15 ? std::max(value, 0.0) : 0.0);
  if (static_cast<double>(whole) != value) return fmt::format("{:.4g}", value);
  if (scale == Scale::kLog2 && whole >= 1024) {
    const bool mega = whole >= 1 << 20;
    return fmt::format("{:.4g}{}", value / (mega ? 1 << 20 : 1024), mega ? "Mi" : "Ki");
  }
  return whole < 10'000'000 ? with_commas(whole) : fmt::format("{:.4g}", value);
}

std::string text_at(double x, double y, std::string_view attributes, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes,
                     xml_escaped(text));
}

// Lines of the two kinds that themes colour; readers without style sheets use the attribute.
constexpr std::string_view kGrid = "class=\"grid\" stroke=\"#dddddd\"";
constexpr std::string_view kFrame = "class=\"frame\" stroke=\"#444444\"";

std::string line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, kind);
}

// Opens a document on themed paper.
std::string head(std::string_view title, double height) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" "
             "font-size=\"12\" fill=\"#222222\" role=\"img\">\n<title>{2}</title>\n",
             kWidth, height, xml_escaped(title)) +
         "<style>.chart{--paper:#fff;--ink:#222;--grid:#ddd;--frame:#444;fill:var(--ink)}"
         "@media(prefers-color-scheme:dark){.chart{--paper:#16191d;--ink:#e4e6e8;--grid:#33383d;"
         "--frame:#9aa0a6}}"
         ".paper{fill:var(--paper)}.grid{stroke:var(--grid)}.frame{stroke:var(--frame)}</style>\n"
         "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
         text_at(kWidth / 2, 30, "text-anchor=\"middle\" font-size=\"18\"", title);
}

std::string axes(const LineChart& chart, const Axis& x, const Axis& y) {
  std::string out;
  for (const double tick : x.ticks()) {
    out += line(x.pixel(tick), kTop, x.pixel(tick), kBottom, kGrid);
    out += text_at(x.pixel(tick), kBottom + 18, "text-anchor=\"middle\"",
                   tick_text(tick, chart.x_scale));
  }
  for (const double tick : y.ticks()) {
    out += line(kLeft, y.pixel(tick), kRight, y.pixel(tick), kGrid);
    out += text_at(kLeft - 8, y.pixel(tick) + 4, "text-anchor=\"end\"",
                   tick_text(tick, chart.y_scale));
  }
  out += line(kLeft, kBottom, kRight, kBottom, kFrame);
  out += line(kLeft, kTop, kLeft, kBottom, kFrame);
  out += text_at((kLeft + kRight) / 2, kBottom + 40, "text-anchor=\"middle\"", chart.x_label);
  const double middle = (kTop + kBottom) / 2;
  out += text_at(20, middle,
                 fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 20 {:.1f})\"", middle),
                 chart.y_label);
  return out;
}

std::string curve(const ChartSeries& series, size_t index, const Axis& x, const Axis& y) {
  const char* const colour = kColours[index % kColours.size()];
  const char* const dash = kDashes[index / kColours.size() % kDashes.size()];
  std::string path;
  std::string marks;
  for (const ChartPoint& point : series.points) {
    if (!x.accepts(point.x) || !y.accepts(point.y)) continue;
    const double at_x = x.pixel(point.x);
    const double at_y = y.pixel(point.y);
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", at_x, at_y);
    marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", at_x, at_y,
                         colour);
  }
  const std::string stroke = fmt::format(
      "fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"", colour, dash);
  const double key_y = kTop + 8 + 20 * static_cast<double>(index);
  return fmt::format("<polyline points=\"{}\" {}/>\n", path, stroke) + marks +
         fmt::format("<polyline points=\"{0:.1f},{2:.1f} {1:.1f},{2:.1f}\" {3}/>\n", kRight + 16,
                     kRight + 44, key_y, stroke) +
         text_at(kRight + 52, key_y + 4, "", series.name);
}

std::string chart_group(const LineChart& chart, double top) {
  Axis x(chart.x_scale, kLeft, kRight);
  Axis y(chart.y_scale, kBottom, kTop);
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (!x.accepts(point.x) || !y.accepts(point.y)) continue;
      x.include(point.x);
      y.include(point.y);
    }
  }
  x.close();
  y.close();
  std::string out = fmt::format("<g transform=\"translate(0 {:.1f})\">\n", top);
  out += text_at(kLeft, kTop - 16, "font-size=\"15\" font-weight=\"bold\"", chart.title);
  out += axes(chart, x, y);
  for (size_t i = 0; i < chart.series.size(); ++i) out += curve(chart.series[i], i, x, y);
  return out + "</g>\n";
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string to_svg(std::string_view title, std::span<const LineChart> charts) {
  std::string out = head(title, kHeadHeight + kChartHeight * static_cast<double>(charts.size()));
  for (size_t i = 0; i < charts.size(); ++i) {
    out += chart_group(charts[i], kHeadHeight + kChartHeight * static_cast<double>(i));
  }
  return out + "</svg>\n";
}

std::string to_svg(std::string_view title, const BarChart& chart) {
  constexpr double kNames = 270;  // where the names end and the bars begin
  constexpr double kEnd = 690;
  constexpr double kBar = 18;
  constexpr double kStep = 26;
  const double top = kHeadHeight + kTop;
  const double bottom = top + kStep * static_cast<double>(chart.bars.size());
  Axis x(chart.scale, kNames, kEnd);
  if (chart.scale == Scale::kLinear) x.include(0);
  for (const ChartBar& bar : chart.bars) {
    if (x.accepts(bar.value)) x.include(bar.value);
  }
  x.close();
  std::string out = head(title, bottom + 60);
  out += text_at(kNames, top - 16, "font-size=\"15\" font-weight=\"bold\"", chart.title);
  for (const double tick : x.ticks()) {
    out += line(x.pixel(tick), top, x.pixel(tick), bottom, kGrid);
    out +=
        text_at(x.pixel(tick), bottom + 18, "text-anchor=\"middle\"", tick_text(tick, chart.scale));
  }
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const ChartBar& bar = chart.bars[i];
    const double y = top + kStep * static_cast<double>(i) + (kStep - kBar) / 2;
    const double end = x.accepts(bar.value) ? x.pixel(bar.value) : kNames;
    out += text_at(kNames - 8, y + 13, "text-anchor=\"end\"", bar.name);
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
        kNames, y, std::max(end - kNames, 1.0), kBar, kColours[bar.colour % kColours.size()]);
    out += text_at(std::max(end, kNames + 1) + 6, y + 13, "", bar.label);
  }
  out += line(kNames, top, kNames, bottom, kFrame);
  out += text_at((kNames + kEnd) / 2, bottom + 42, "text-anchor=\"middle\"", chart.x_label);
  return out + "</svg>\n";
}

}  // namespace thimble::base
