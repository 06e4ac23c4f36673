// Keys of an object that are none of some names.
#pragma once

#include <string>
#include <vector>

#include "text/internal/grammar_builder.h"

namespace thimble::text {

// A key between quotes, then `next`; part of the rule that is being written. It is of characters as
// they stand, since an escape would be another spelling of a name. REQUIRES: names in UTF-8.
GrammarBuilder::At other_key(GrammarBuilder& builder, const std::vector<std::string>& names,
                             GrammarBuilder::At next);

}  // namespace thimble::text
