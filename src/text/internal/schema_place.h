// A JSON schema's parts as they are read: where each lies, and its keywords with their types
// checked.
//
// Errors begin with the JSON pointer of the part: "#/properties/a: 'pattern' is not supported". A
// place points into the schema, and into its parents; both must outlive it. One thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace thimble::text {

using SchemaJson = nlohmann::ordered_json;

// A schema's text as JSON. kUnsupported: longer than kSchemaBytesMax.
Result<SchemaJson> read_schema(std::string_view schema);

struct SchemaPlace {
  const SchemaJson* json = nullptr;
  const SchemaPlace* parent = nullptr;  // none: `name` is the whole pointer
  std::string_view keyword = {};        // of the parent
  std::string name = {};                // within the keyword's value; may be empty
};

std::string pointer_of(const SchemaPlace& place);

[[nodiscard]] tl::unexpected<Error> schema_error(ErrorCode code, const SchemaPlace& place,
                                                 std::string_view what);

enum SchemaType : uint32_t {
  kTypeObject = 1,
  kTypeArray = 2,
  kTypeString = 4,
  kTypeNumber = 8,  // with kTypeInteger
  kTypeInteger = 16,
  kTypeBoolean = 32,
  kTypeNull = 64,
  kTypeAny = 127,
};

// Null when there is no such keyword.
const SchemaJson* keyword(const SchemaPlace& place, std::string_view name);

// kUnsupported for a keyword that is not understood, or that stands beside one it would change.
Result<void> check_keywords(const SchemaPlace& place);

// What `type` says, or what the other keywords are about: those of objects mean an object. Any type
// where nothing is said.
Result<uint32_t> types_of(const SchemaPlace& place);
uint32_t type_of_value(const SchemaJson& value);

// A keyword's whole number, 0 to 2^31.
Result<std::optional<uint32_t>> size_keyword(const SchemaPlace& place, std::string_view name);

// What "#/$defs/NAME" or another pointer leads to.
Result<const SchemaJson*> resolve_ref(const SchemaJson& root, const SchemaPlace& place);

}  // namespace thimble::text
