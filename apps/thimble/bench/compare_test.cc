// Aim: two runs are matched case by case, whatever their order, and what is no run is refused by
// line. Method: files by hand.
#include "apps/thimble/bench/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thimble::app {
namespace {

using testing::HasSubstr;

TEST(CompareRuns, MatchesCases) {
  const base::TempDir dir;
  const Path before = dir.path() / "a";
  const Path after = dir.path() / "b";
  ASSERT_TRUE(base::write_file_atomic(before,
                                      "{\"op\":\"x\",\"n\":1,\"us\":30}\n"
                                      "{\"op\":\"gone\",\"n\":1,\"us\":5}\n"));
  ASSERT_TRUE(base::write_file_atomic(after,
                                      "{\"op\":\"new\",\"n\":1,\"us\":7}\n\n"
                                      "{\"op\":\"x\",\"n\":1,\"us\":20}"));
  const auto table = compare_runs(before, after);
  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, HasSubstr("1.50"));
  EXPECT_THAT(*table, HasSubstr("gone 1"));
  EXPECT_THAT(*table, HasSubstr("new 1"));
}

TEST(CompareRuns, NamesTheLine) {
  const base::TempDir dir;
  const Path file = dir.path() / "a";
  ASSERT_TRUE(base::write_file_atomic(file, "{\"op\":\"x\",\"us\":30}\nnonsense\n"));
  const auto table = compare_runs(file, file);
  ASSERT_FALSE(table.has_value());
  EXPECT_THAT(table.error().message, HasSubstr("line 2"));
  EXPECT_FALSE(compare_runs(dir.path() / "none", file).has_value());
}

}  // namespace
}  // namespace thimble::app
