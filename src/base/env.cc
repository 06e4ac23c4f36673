#include "base/env.h"

#include <cstdlib>

namespace thimble::base {
namespace {

std::optional<std::string> get(const char* name) {
  const char* value =
      std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here calls setenv
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace

std::optional<std::string> env_isa() { return get("THIMBLE_ISA"); }

std::optional<std::string> env_log_level() { return get("THIMBLE_LOG"); }

std::string env_home() {
  if (auto home = get("THIMBLE_HOME")) return *home;
  if (auto data = get("XDG_DATA_HOME")) return *data + "/thimble";
  return get("HOME").value_or(".") + "/.local/share/thimble";
}

}  // namespace thimble::base
