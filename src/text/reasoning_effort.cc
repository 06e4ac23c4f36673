#include "text/reasoning_effort.h"

#include <array>
#include <charconv>

namespace thimble::text {
namespace {

struct NamedEffort {
  std::string_view name;
  ReasoningEffort effort;
};

constexpr std::array<NamedEffort, 8> kNamedEfforts = {{
    {"none", {.thinking = false}},
    {"minimal", {.budget = 50}},
    {"low", {.budget = 50}},
    {"medium", {.budget = 75}},
    {"high", {.budget = 75}},
    {"xhigh", {.budget = 75}},
    {"max", {.budget = 100}},
    {"ultra", {.budget = 100}},
}};

}  // namespace

Result<ReasoningEffort> effort_from_number(int64_t number) {
  if (number < 1 || number > 100) {
    return base::fail(ErrorCode::kInvalidArgument, "reasoning effort {}, expected 1 to 100",
                      number);
  }
  return ReasoningEffort{.thinking = true, .budget = static_cast<int32_t>(number)};
}

Result<ReasoningEffort> parse_effort(std::string_view text) {
  for (const NamedEffort& named : kNamedEfforts) {
    if (named.name == text) return named.effort;
  }
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stopped == end) return effort_from_number(number);
  return base::fail(ErrorCode::kInvalidArgument,
                    "reasoning effort \"{}\", expected none, minimal, low, medium, high, xhigh, "
                    "max, ultra or a number from 1 to 100",
                    text.substr(0, 64));
}

}  // namespace thimble::text
