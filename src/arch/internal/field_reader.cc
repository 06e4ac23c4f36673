#include "arch/internal/field_reader.h"

namespace thimble::arch {
namespace {

// Longest list a configuration can hold: one number a layer, drafts included.
constexpr size_t kMaxList = 2 * kMaxLayers;

tl::unexpected<Error> bad(const std::string& where, const Json& found, std::string_view expected) {
  return fail(ErrorCode::kCorrupt, "{} is {}; expected {}", where, brief(found), expected);
}

}  // namespace

void FieldReader::refuse(Error error) {
  if (!error_) error_ = std::move(error);
}

Result<void> FieldReader::result() const {
  if (error_) return tl::unexpected<Error>(*error_);
  return {};
}

const Json* FieldReader::find(Key key) const {
  const Json* json = object_.find(name(key));
  return json == nullptr || json->get<std::nullptr_t>() != nullptr ? nullptr : json;
}

const Json* FieldReader::require(Key key) {
  const Json* json = find(key);
  if (json == nullptr) {
    refuse(fail(ErrorCode::kCorrupt, "{} is missing", path_of(key)).value());
  }
  return json;
}

std::optional<uint64_t> FieldReader::integer(const Json& json, const std::string& where,
                                             IntRange range) {
  const uint64_t* number = json.get<uint64_t>();
  if (number != nullptr && *number >= range.min && *number <= range.max) return *number;
  refuse(bad(where, json, fmt::format("an integer from {} to {}", range.min, range.max)).value());
  return std::nullopt;
}

void FieldReader::field(Key key, uint32_t& out, IntRange range) {
  uint64_t wide = out;
  field(key, wide, range);
  out = static_cast<uint32_t>(wide);  // no range of a 32-bit field goes beyond 32 bits
}

void FieldReader::field(Key key, uint64_t& out, IntRange range) {
  const Json* json = require(key);
  if (json == nullptr) return;
  if (const auto number = integer(*json, path_of(key), range)) out = *number;
}

void FieldReader::field(Key key, double& out, RealRange range) {
  const Json* json = require(key);
  if (json == nullptr) return;
  double number = -1;
  if (const auto* real = json->get<double>()) {
    number = *real;
  } else if (const auto* whole = json->get<uint64_t>()) {
    number = static_cast<double>(*whole);
  }
  if (number >= range.min && number <= range.max) {
    out = number;
  } else {
    refuse(bad(path_of(key), *json, fmt::format("a number from {} to {}", range.min, range.max))
               .value());
  }
}

template <class T>
void FieldReader::list(Key key, std::vector<T>& out, IntRange range) {
  const Json* json = require(key);
  if (json == nullptr) return;
  const auto* array = json->get<Json::Array>();
  if (array == nullptr || array->size() > kMaxList) {
    refuse(
        bad(path_of(key), *json, fmt::format("a list of at most {} integers", kMaxList)).value());
    return;
  }
  out.clear();
  for (const Json& item : *array) {
    const std::string where = fmt::format("{}[{}]", path_of(key), out.size());
    const auto number = integer(item, where, range);
    if (!number) return;
    out.push_back(static_cast<T>(*number));
  }
}

void FieldReader::field(Key key, std::vector<uint32_t>& out, IntRange range) {
  list(key, out, range);
}

void FieldReader::field(Key key, std::vector<uint64_t>& out, IntRange range) {
  list(key, out, range);
}

void FieldReader::only_text(Key key, std::string_view text) {
  const Json* json = find(key);
  if (json == nullptr) return;
  const auto* found = json->get<std::string>();
  if (found != nullptr && *found == text) return;
  refuse(fail(ErrorCode::kUnsupported, "{} is {}; only \"{}\" is supported", path_of(key),
              brief(*json), text)
             .value());
}

void FieldReader::only_flag(Key key, bool flag) {
  const Json* json = find(key);
  if (json == nullptr) return;
  const auto* found = json->get<bool>();
  if (found != nullptr && *found == flag) return;
  refuse(fail(ErrorCode::kUnsupported, "{} is {}; only {} is supported", path_of(key), brief(*json),
              flag)
             .value());
}

void FieldReader::only_number(Key key, double number) {
  const Json* json = find(key);
  if (json == nullptr) return;
  const auto* real = json->get<double>();
  const auto* whole = json->get<uint64_t>();
  if (real != nullptr && *real == number) return;
  if (whole != nullptr && static_cast<double>(*whole) == number) return;
  refuse(fail(ErrorCode::kUnsupported, "{} is {}; only {} is supported", path_of(key), brief(*json),
              number)
             .value());
}

void FieldReader::only_absent(Key key) {
  const Json* json = find(key);
  if (json == nullptr) return;
  refuse(fail(ErrorCode::kUnsupported, "{} is {}; this model family has no such setting",
              path_of(key), brief(*json))
             .value());
}

}  // namespace thimble::arch
