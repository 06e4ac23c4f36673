// Aim: a chart shows each value where its axis says, and no name breaks the document. Method: small
// charts, their text searched for coordinates worked out by hand (the plot is 92 to 640 by 316 to
// 44).
#include "base/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace thimble::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LineChart chart(Scale x, Scale y, std::vector<ChartPoint> points) {
  return {.title = "T",
          .x_label = "X",
          .y_label = "Y",
          .x_scale = x,
          .y_scale = y,
          .series = {{"s", std::move(points)}}};
}

size_t count(const std::string& text, std::string_view word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(Svg, LinearAxesReachFromEndToEnd) {
  const LineChart one = chart(Scale::kLinear, Scale::kLinear, {{0, 0}, {5, 50}, {10, 100}});
  const std::string svg = to_svg("all", {&one, 1});
  EXPECT_THAT(svg, HasSubstr("points=\"92.0,316.0 366.0,180.0 640.0,44.0\""));
  EXPECT_THAT(svg, HasSubstr(">100</text>"));
  EXPECT_EQ(count(svg, "<circle"), 3u);
}

TEST(Svg, LogAxesSpreadPowersEvenly) {
  const LineChart one = chart(Scale::kLog2, Scale::kLog10, {{64, 0.01}, {128, 0.1}, {256, 1}});
  const std::string svg = to_svg("all", {&one, 1});
  EXPECT_THAT(svg, HasSubstr("points=\"92.0,316.0 366.0,180.0 640.0,44.0\""));
  for (const char* tick : {">64</text>", ">128</text>", ">256</text>", ">0.01</text>"}) {
    EXPECT_THAT(svg, HasSubstr(tick));
  }
}

TEST(Svg, ZeroHasItsOwnLineOnALogAxis) {
  const LineChart one = chart(Scale::kLinear, Scale::kLog10, {{0, 0}, {10, 0.1}, {20, 1}});
  const std::string svg = to_svg("all", {&one, 1});
  EXPECT_THAT(svg, HasSubstr("points=\"92.0,316.0 366.0,290.0 640.0,44.0\""));
  EXPECT_THAT(svg, HasSubstr(">0</text>"));
}

TEST(Svg, LeavesOutWhatHasNoPlace) {
  const double infinity = std::numeric_limits<double>::infinity();
  const LineChart one =
      chart(Scale::kLinear, Scale::kLog10, {{0, 1}, {1, infinity}, {2, -1}, {3, 10}});
  const std::string svg = to_svg("all", {&one, 1});
  EXPECT_EQ(count(svg, "<circle"), 2u);
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Svg, NamesAreEscapedAndNothingIsAnEmptyChart) {
  LineChart one = chart(Scale::kLog10, Scale::kLog10, {});
  one.title = "a<b & \"c\" > 'd'\x01";
  one.series.front().name = "</svg><script>";
  const std::string svg = to_svg("x & y", {&one, 1});
  EXPECT_THAT(svg, HasSubstr("a&lt;b &amp; &quot;c&quot; &gt; &apos;d&apos; <"));
  EXPECT_THAT(svg, HasSubstr("<title>x &amp; y</title>"));
  EXPECT_EQ(count(svg, "</svg>"), 1u);
  EXPECT_EQ(count(svg, "<script"), 0u);
}

TEST(Svg, ChartsStandBelowEachOtherInDifferentColours) {
  LineChart one = chart(Scale::kLinear, Scale::kLinear, {{0, 1}, {1, 2}});
  for (int i = 0; i < 7; ++i) one.series.push_back(one.series.front());
  const std::vector<LineChart> two = {one, one};
  const std::string svg = to_svg("all", two);
  EXPECT_THAT(svg, HasSubstr("translate(0 48.0)"));
  EXPECT_THAT(svg, HasSubstr("translate(0 428.0)"));
  EXPECT_THAT(svg, HasSubstr("height=\"808\""));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"6 4\""));  // the eighth
}

TEST(Svg, BarsReachTheirValues) {
  const BarChart bars{.title = "T",
                      .x_label = "X",
                      .scale = Scale::kLinear,
                      .bars = {{"half", 50, "50 B", 0}, {"<whole>", 100, "100 B", 1}}};
  const std::string svg = to_svg("all", bars);
  EXPECT_THAT(svg, HasSubstr("x=\"270.0\" y=\"96.0\" width=\"210.0\""));
  EXPECT_THAT(svg, HasSubstr("x=\"270.0\" y=\"122.0\" width=\"420.0\""));
  EXPECT_THAT(svg, HasSubstr("&lt;whole&gt;</text>"));
  EXPECT_THAT(svg, HasSubstr(">50 B</text>"));
}

TEST(Svg, FollowsTheReadersTheme) {
  const std::string svg = to_svg("all", BarChart{});
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, HasSubstr("class=\"paper\""));
}

}  // namespace
}  // namespace thimble::base
