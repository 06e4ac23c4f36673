#include "text/internal/number_rules.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"

namespace thimble::text {
namespace {

using At = GrammarBuilder::At;

// Digits of whole numbers that are not negative.
class Digits {
 public:
  Digits(GrammarBuilder& builder, At next) : b_(builder), any_{next} {}

  // low to high, without leading zeros. REQUIRES: 0 <= low <= high.
  At between(int64_t low, int64_t high) {
    std::vector<At> lengths;
    int64_t first = 0;  // of those with as many digits
    int64_t last = 9;
    while (first <= high) {
      const int64_t from = std::max(low, first);
      const int64_t to = std::min(high, last);
      if (from <= to) lengths.push_back(same_length(std::to_string(from), std::to_string(to)));
      first = last + 1;
      last = last * 10 + 9;
    }
    return b_.any_of(lengths);
  }

 private:
  // Any so many digits.
  At any(size_t count) {
    while (any_.size() <= count) any_.push_back(b_.read({{'0', '9', any_.back()}}));
    return any_[count];
  }

  At at_least(std::string_view low) {
    if (low.empty()) return any(0);
    const auto d = static_cast<uint8_t>(low[0]);
    std::vector<ByteRange> ranges = {{d, d, at_least(low.substr(1))}};
    if (d < '9') ranges.push_back({static_cast<uint8_t>(d + 1), '9', any(low.size() - 1)});
    return b_.read(std::move(ranges));
  }

  At at_most(std::string_view high) {
    if (high.empty()) return any(0);
    const auto d = static_cast<uint8_t>(high[0]);
    std::vector<ByteRange> ranges = {{d, d, at_most(high.substr(1))}};
    if (d > '0') ranges.push_back({'0', static_cast<uint8_t>(d - 1), any(high.size() - 1)});
    return b_.read(std::move(ranges));
  }

  At same_length(std::string_view low, std::string_view high) {
    if (low.empty()) return any(0);
    const auto from = static_cast<uint8_t>(low[0]);
    const auto to = static_cast<uint8_t>(high[0]);
    if (from == to) {
      return b_.read({{from, from, same_length(low.substr(1), high.substr(1))}});
    }
    std::vector<ByteRange> ranges = {{from, from, at_least(low.substr(1))},
                                     {to, to, at_most(high.substr(1))}};
    if (from + 1 < to) {
      ranges.push_back(
          {static_cast<uint8_t>(from + 1), static_cast<uint8_t>(to - 1), any(low.size() - 1)});
    }
    return b_.read(std::move(ranges));
  }

  GrammarBuilder& b_;
  std::vector<At> any_;
};

// Amounts without a sign: [low, high], ends left out where marked.
void add_amounts(GrammarBuilder& b, JsonRules& rules, const NumberBounds& amounts, NumberForm form,
                 At next, std::vector<At>& out) {
  const int64_t low = amounts.low + (amounts.excludes_low ? 1 : 0);
  const int64_t high = amounts.high - (amounts.excludes_high ? 1 : 0);
  if (low <= high) out.push_back(Digits(b, next).between(low, high));
  if (form == NumberForm::kWhole || amounts.low >= amounts.high) return;
  // Whole part and more than nothing behind the point: below amounts.high in any case.
  if (low <= amounts.high - 1) {
    out.push_back(Digits(b, b.call(rules.fraction(), next)).between(low, amounts.high - 1));
  }
  if (!amounts.excludes_low) return;
  const At rest = b.call(rules.nonzero_fraction(), next);
  out.push_back(Digits(b, rest).between(amounts.low, amounts.low));
}

}  // namespace

bool is_empty(const NumberBounds& bounds, NumberForm form) {
  const int64_t low = bounds.low + (bounds.excludes_low ? 1 : 0);
  const int64_t high = bounds.high - (bounds.excludes_high ? 1 : 0);
  if (low <= high) return false;
  return form == NumberForm::kWhole || bounds.low >= bounds.high;
}

At bounded_number(GrammarBuilder& builder, JsonRules& rules, const NumberBounds& bounds,
                  NumberForm form, At next) {
  CHECK(!is_empty(bounds, form));
  std::vector<At> alternatives;
  if (bounds.high >= 0) {
    NumberBounds amounts = bounds;
    if (bounds.low < 0) {
      amounts.low = 0;
      amounts.excludes_low = false;
    }
    if (!is_empty(amounts, form)) {
      add_amounts(builder, rules, amounts, form, next, alternatives);
    }
  }
  if (bounds.low < 0) {
    NumberBounds amounts{-bounds.high, -bounds.low, bounds.excludes_high, bounds.excludes_low};
    if (bounds.high > 0) {
      amounts.low = 0;
      amounts.excludes_low = false;
    }
    std::vector<At> negative;
    if (!is_empty(amounts, form)) add_amounts(builder, rules, amounts, form, next, negative);
    if (!negative.empty()) alternatives.push_back(builder.read("-", builder.any_of(negative)));
  }
  return builder.any_of(alternatives);
}

}  // namespace thimble::text
