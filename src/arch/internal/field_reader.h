// Reads typed, ranged values out of one JSON object; the first failure is kept and names the key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/internal/config_fields.h"
#include "arch/internal/json.h"
#include "base/result.h"

namespace thimble::arch {

enum class Spelling { kHuggingFace, kFlat };

class FieldReader {
 public:
  // Borrows `object`, which must be a JSON object; `path` prefixes keys in messages
  // ("text_config.").
  FieldReader(const Json& object, std::string path, Spelling spelling)
      : object_(object), path_(std::move(path)), spelling_(spelling) {}

  // The visitor's calls: the key must exist.
  void field(Key key, uint32_t& out, IntRange range);
  void field(Key key, uint64_t& out, IntRange range);
  void field(Key key, double& out, RealRange range);
  void field(Key key, std::vector<uint32_t>& out, IntRange range);
  void field(Key key, std::vector<uint64_t>& out, IntRange range);

  // Leaves `out` alone where the key is absent or null.
  template <class T, class Range>
  void optional_field(Key key, T& out, Range range) {
    if (has(key)) field(key, out, range);
  }

  // If the key is there it must say exactly this: anything else is a model we do not run.
  void only_text(Key key, std::string_view text);
  void only_flag(Key key, bool flag);
  void only_number(Key key, double number);
  void only_absent(Key key);

  bool has(Key key) const { return find(key) != nullptr; }
  // Null where absent or null.
  const Json* find(Key key) const;
  std::string path_of(Key key) const { return path_ + name(key); }

  void refuse(Error error);
  Result<void> result() const;

 private:
  const char* name(Key key) const { return spelling_ == Spelling::kFlat ? key.flat : key.hf; }
  const Json* require(Key key);
  std::optional<uint64_t> integer(const Json& json, const std::string& where, IntRange range);
  template <class T>
  void list(Key key, std::vector<T>& out, IntRange range);

  const Json& object_;
  std::string path_;
  Spelling spelling_;
  std::optional<Error> error_;
};

}  // namespace thimble::arch
