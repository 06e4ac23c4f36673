// Keys of an object that are none of some names.
#pragma once

#include <string>
#include <vector>

#include "text/internal/grammar_builder.h"

namespace thimble::text {

// A key between quotes, then `next`; part of the rule that is being written. It is of characters as
// they stand, since an escape would be another spelling of a name; at most so many more than it has
// in common with a name, which that rule counts. REQUIRES: names in UTF-8.
GrammarBuilder::At other_key(GrammarBuilder& builder, const std::vector<std::string>& names,
                             uint32_t characters_max, GrammarBuilder::At next);

}  // namespace thimble::text
