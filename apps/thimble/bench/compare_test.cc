// Aim: two runs are matched case by case, whatever their order, and what is no run is refused by
// line. Method: files by hand.
#include "apps/thimble/bench/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace thimble::app {
namespace {

using testing::HasSubstr;
using testing::Not;

class CompareRuns : public testing::Test {
 protected:
  Path file(const char* name, const std::string& content) {
    EXPECT_TRUE(base::write_file_atomic(dir_.path() / name, content));
    return dir_.path() / name;
  }
  std::string refusal(const std::string& content) {
    const Path path = file("refused", content);
    const auto table = compare_runs(path, path);
    return table ? *table : table.error().message;
  }

 private:
  base::TempDir dir_;
};

// Of the case `changed` from one that all tests share.
std::string line(double us, const nlohmann::json& changed = nlohmann::json::object()) {
  nlohmann::json out = {{"op", "x"},       {"layout", "packed"}, {"shape", {64, 32}}, {"n", 1},
                        {"isa", "scalar"}, {"threads", 2},       {"us", us}};
  out.update(changed);
  return out.dump() + "\n";
}

TEST_F(CompareRuns, MatchesCases) {
  const Path before = file("a", line(30) + line(5, {{"op", "gone"}}));
  const Path after = file("b", line(7, {{"op", "new"}}) + "\n" + line(20));
  const auto table = compare_runs(before, after);
  ASSERT_TRUE(table.has_value());
  EXPECT_THAT(*table, HasSubstr("1.50"));
  EXPECT_THAT(*table, HasSubstr("x packed [64,32] 1 scalar 2 "));
  EXPECT_THAT(*table, HasSubstr("gone packed"));
  EXPECT_THAT(*table, HasSubstr("new packed"));
}

// What differs in one word is another case.
TEST_F(CompareRuns, EveryPartOfACaseCounts) {
  const nlohmann::json others[] = {{{"op", "y"}}, {{"layout", "streamed"}}, {{"shape", {32, 64}}},
                                   {{"n", 8}},    {{"isa", "avx2"}},        {{"threads", 1}}};
  for (const nlohmann::json& other : others) {
    const auto table = compare_runs(file("a", line(30)), file("b", line(20, other)));
    ASSERT_TRUE(table.has_value());
    EXPECT_THAT(*table, Not(HasSubstr("1.50"))) << other;
    EXPECT_TRUE(compare_runs(file("a", line(30) + line(20, other)), file("b", line(30))));
  }
}

TEST_F(CompareRuns, ACaseIsThereOnce) {
  EXPECT_THAT(refusal(line(30) + line(5, {{"n", 2}}) + line(31)),
              HasSubstr("line 3: x packed [64,32] 1 scalar 2 is there twice"));
}

TEST_F(CompareRuns, NamesTheLine) {
  EXPECT_THAT(refusal(line(30) + "nonsense\n"), HasSubstr("line 2: no result"));
  for (const nlohmann::json& bad :
       {nlohmann::json(-1), nlohmann::json(0), nlohmann::json("30"), nlohmann::json(nullptr)}) {
    EXPECT_THAT(refusal(line(1, {{"us", bad}})), HasSubstr("line 1: no result")) << bad;
  }
  EXPECT_THAT(refusal("{\"measure\":\"throughput\",\"us\":30}\n"), HasSubstr("line 1: no result"));
  EXPECT_THAT(refusal("[30]\n"), HasSubstr("line 1: no result"));
  EXPECT_THAT(refusal(""), HasSubstr("no result"));
  EXPECT_THAT(refusal("\n\n"), HasSubstr("no result"));
  EXPECT_FALSE(compare_runs("nowhere", "nowhere").has_value());
}

}  // namespace
}  // namespace thimble::app
