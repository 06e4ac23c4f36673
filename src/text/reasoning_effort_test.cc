// Aim: effort names and numbers follow the current table of spec/chat-format.md section 4, and
// whatever else is refused (known failure F22). Method: the whole table, and its edges.
#include "text/reasoning_effort.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thimble::text {
namespace {

TEST(ReasoningEffort, Names) {
  const std::pair<const char*, int> budgets[] = {{"minimal", 50}, {"low", 50},   {"medium", 75},
                                                 {"high", 75},    {"xhigh", 75}, {"max", 100},
                                                 {"ultra", 100}};
  for (const auto& [name, budget] : budgets) {
    const auto effort = parse_effort(name);
    ASSERT_TRUE(effort) << name;
    EXPECT_TRUE(effort->thinking) << name;
    EXPECT_EQ(effort->budget, budget) << name;
  }
  EXPECT_FALSE(parse_effort("none")->thinking);
  EXPECT_EQ(ReasoningEffort{}.budget, 75);  // Missing.
  EXPECT_TRUE(ReasoningEffort{}.thinking);
}

TEST(ReasoningEffort, Numbers) {
  for (const int number : {1, 37, 100}) {
    EXPECT_EQ(effort_from_number(number)->budget, number);
    EXPECT_EQ(parse_effort(std::to_string(number))->budget, number);
  }
}

TEST(ReasoningEffort, AnythingElseIsRefused) {
  for (const int64_t number : {int64_t{0}, int64_t{101}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const auto effort = effort_from_number(number);
    ASSERT_FALSE(effort);
    EXPECT_EQ(effort.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(parse_effort(std::to_string(number)));
  }
  for (const char* text :
       {"", "High", " high", "high ", "50%", "1.5", "0x10", "+5", "7 ", "99999999999999999999"}) {
    EXPECT_FALSE(parse_effort(text)) << text;
  }
  EXPECT_THAT(parse_effort("huge").error().message, testing::HasSubstr("\"huge\""));
}

}  // namespace
}  // namespace thimble::text
