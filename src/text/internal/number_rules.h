// Numbers between two bounds, as text.
//
// Exact: every text is within the bounds. A whole number has no point; another has digits behind
// it and no exponent. Bounds are whole and lie within +-10^15.
#pragma once

#include <cstdint>

#include "text/internal/json_rules.h"

namespace thimble::text {

inline constexpr int64_t kNumberBoundMax = 1'000'000'000'000'000;

struct NumberBounds {
  // Inclusive for whole numbers; for others `low` and `high` themselves are out if so marked.
  int64_t low = -kNumberBoundMax;
  int64_t high = kNumberBoundMax;
  bool excludes_low = false;
  bool excludes_high = false;
};

enum class NumberForm { kWhole, kAny };

// Is there such a number? Beside the point exclusive bounds may leave none.
bool is_empty(const NumberBounds& bounds, NumberForm form);

// Part of the rule that is being written. REQUIRES: not is_empty().
GrammarBuilder::At bounded_number(GrammarBuilder& builder, JsonRules& rules,
                                  const NumberBounds& bounds, NumberForm form,
                                  GrammarBuilder::At next);

}  // namespace thimble::text
