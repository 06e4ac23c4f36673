// A JSON schema as a Grammar: every text of the language is JSON that fits the schema.
//
// Understood: type (names and lists), enum, const, properties, required, additionalProperties,
// items, prefixItems, minItems, maxItems, minLength, maxLength, minimum, maximum and the exclusive
// ones (whole numbers), anyOf, oneOf (of alternatives that exclude each other), allOf of one, $ref
// into the schema, recursive ones too, nullable. Titles, descriptions, defaults and examples mean
// nothing; any other keyword is refused by name and place. Texts are one spelling of many
// (internal/json_rules.h, internal/schema_compiler.h). Stateless; any thread.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar.h"

namespace thimble::text {

inline constexpr size_t kSchemaBytesMax = 256 << 10;

// Errors name the place as a JSON pointer. kUnsupported: a keyword, or a schema too large.
// kInvalidArgument: no schema, or one that no value fits.
Result<Grammar> compile_json_schema(std::string_view schema);

// Any JSON object.
Grammar json_object_grammar();

}  // namespace thimble::text
