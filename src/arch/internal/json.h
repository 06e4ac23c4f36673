// A JSON document as a small tree of our own, so that simdjson stays in one translation unit.
//
// Integers keep 64 bits. Refused: duplicate keys anywhere, nesting beyond `kMaxJsonDepth`, more
// than `kMaxJsonValues` values, numbers that fit neither 64-bit integers nor doubles, bytes that
// are not UTF-8. Plain values; no sharing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace thimble::arch {

inline constexpr uint32_t kMaxJsonDepth = 32;
// Five times what the released model's tensors would take in one header; half a gigabyte as a tree.
inline constexpr uint64_t kMaxJsonValues = 1 << 22;

struct JsonMember;

struct Json {
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;  // in the document's order

  // Non-negative integers are always uint64_t.
  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Array, Object> value;

  template <class T>
  const T* get() const {
    return std::get_if<T>(&value);
  }
  // Null unless this is an object that has the key. Linear.
  const Json* find(std::string_view key) const;
};

struct JsonMember {
  std::string first;
  Json second;
};

Result<Json> parse_json(std::string_view text);

// The value as JSON text of at most about 60 characters, for error messages.
std::string brief(const Json& json);

// `name` in quotes, control bytes escaped, shortened: names come from files and end on terminals.
std::string in_quotes(std::string_view name);

}  // namespace thimble::arch
