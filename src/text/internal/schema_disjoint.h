// Do the alternatives of a 'oneOf' exclude each other?
//
// Exactly one of them must fit a value, and a grammar can only say that one does. So they are taken
// where it can be seen that no value fits two: by their types, by listed values, or by a property
// that one requires and that the other rules out. What is not seen is refused. Stateless.
#pragma once

#include "text/internal/schema_place.h"

namespace thimble::text {

// kUnsupported names the two that may both fit. REQUIRES: place has a 'oneOf' that is an array.
Result<void> check_disjoint(const SchemaJson& root, const SchemaPlace& place);

}  // namespace thimble::text
