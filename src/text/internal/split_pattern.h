// Checks a pre-tokenizer pattern and writes it for PCRE2.
//
// tokenizer.json carries patterns for the Oniguruma engine. Only the constructs on which both
// engines agree are let through (literals, classes, general categories, groups, look-ahead, greedy
// and lazy repeats); anything else is refused by name. `\s` and `\S` become the Unicode property
// White_Space, which is what Oniguruma means by them (PCRE2's own `\s` differs in U+180E).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace thimble::text {

Result<std::string> translate_split_pattern(std::string_view pattern);

}  // namespace thimble::text
