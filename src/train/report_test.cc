// Aim: curves survive a run that is resumed: what was logged is read again, what a lost part of the
// run logged is not, and every curve is drawn. Method: reports written to a folder, read back at
// several steps; the SVG searched for its legend and lines.
#include "train/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace thimble::train {
namespace {

using ::testing::HasSubstr;

class Curves : public ::testing::Test {
 protected:
  // Steps 10 to 50; held_out only at 20 and 40, as an evaluation now and then leaves it.
  static std::vector<StepReport> five() {
    std::vector<StepReport> out;
    for (uint64_t step = 10; step <= 50; step += 10) {
      StepReport r;
      r.step = step;
      r.tokens = step * 4'000'000'000;
      const auto x = static_cast<double>(step);
      r.figures = {{"loss", 5 - x / 64}, {"entropy_mean", 0.5 + x / 128}, {"gradient", 1 / x}};
      if (step % 20 == 0) r.figures.emplace_back("held_out", 1e-7 * x);
      out.push_back(r);
    }
    return out;
  }
  std::vector<StepReport> read(uint64_t step) { return *read_curves(csv_, step); }
  std::string picture() { return *base::read_file(curves_picture(folder_.path())); }

  base::TempDir folder_;
  Path csv_ = folder_.path() / "curves.csv";
};

TEST_F(Curves, AreReadAsTheyWereWritten) {
  ASSERT_TRUE(write_curves(folder_.path(), five()).has_value());
  const auto back = read(50);
  ASSERT_EQ(back.size(), 5u);
  for (size_t i = 0; i < back.size(); ++i) {
    const StepReport wanted = five()[i];
    EXPECT_EQ(back[i].step, wanted.step);
    EXPECT_EQ(back[i].tokens, wanted.tokens);
    EXPECT_EQ(back[i].figures.size(), wanted.figures.size());  // what was not measured stays so
    for (const auto& [name, value] : wanted.figures) {
      EXPECT_NEAR(back[i].figure(name), value, 1e-5 * value) << name;
    }
  }
  EXPECT_TRUE(std::isnan(back[0].figure("held_out")));
  // Once more through the file: nothing changes.
  const std::string first = *base::read_file(csv_);
  ASSERT_TRUE(write_curves(folder_.path(), back).has_value());
  EXPECT_EQ(*base::read_file(csv_), first);
}

// A run that was killed after step 50 and resumes from its state of step 30.
TEST_F(Curves, EndWhereTheStateDoes) {
  ASSERT_TRUE(write_curves(folder_.path(), five()).has_value());
  ASSERT_EQ(read(30).size(), 3u);
  EXPECT_EQ(read(30).back().step, 30u);
  EXPECT_EQ(read(39).size(), 3u);
  EXPECT_EQ(read(0).size(), 0u);
}

TEST_F(Curves, MayNotBeThere) {
  EXPECT_TRUE(read(100).empty());
  ASSERT_TRUE(write_curves(folder_.path(), {}).has_value());
  EXPECT_TRUE(read(100).empty());
}

// A file that somebody edited loses the lines that are no rows of the table, and only those.
TEST_F(Curves, LeaveOutBrokenLines) {
  ASSERT_TRUE(base::write_file_atomic(csv_,
                                      "step,tokens,loss\n1,10,4.5\n2,20\n3,30,,\n4,40,nan\n"
                                      "5,50,4.25")
                  .has_value());
  const auto back = read(100);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(back[0].figure("loss"), 4.5);
  EXPECT_EQ(back[1].step, 4u);
  EXPECT_TRUE(std::isnan(back[1].figure("loss")));
  EXPECT_EQ(back[2].figure("loss"), 4.25);
}

size_t count(std::string_view text, std::string_view what) {
  size_t out = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++out;
  return out;
}

// A line each, another in the legend, a mark for each measured value.
TEST_F(Curves, AreDrawnEachAsALine) {
  ASSERT_TRUE(write_curves(folder_.path(), five()).has_value());
  const std::string svg = picture();
  EXPECT_EQ(count(svg, "<polyline"), 2 * 4u);  // none for entropy_min or the indexer's
  EXPECT_EQ(count(svg, "<circle"), 3 * 5 + 2u);
  const StepReport all = five()[1];
  for (const auto& [name, value] : all.figures) EXPECT_THAT(svg, HasSubstr(">" + name + "<"));
  EXPECT_EQ(svg.find(">entropy_min<"), svg.npos);
  std::vector<StepReport> more = five();
  for (StepReport& r : more) r.figures.emplace_back("mass", 0.5);
  ASSERT_TRUE(write_curves(folder_.path(), more).has_value());
  EXPECT_EQ(count(picture(), "<polyline"), 2 * 5u);
  EXPECT_THAT(picture(), HasSubstr(">mass<"));
}

}  // namespace
}  // namespace thimble::train
