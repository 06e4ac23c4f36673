#include "base/parse_bytes.h"

#include <strings.h>

#include <charconv>
#include <limits>
#include <string>

namespace thimble::base {
namespace {

struct Unit {
  const char* name;
  uint64_t bytes;
};

constexpr Unit kUnits[] = {{"", 1},
                           {"B", 1},
                           {"kB", 1'000},
                           {"MB", 1'000'000},
                           {"GB", 1'000'000'000},
                           {"TB", 1'000'000'000'000},
                           {"KiB", 1ULL << 10},
                           {"MiB", 1ULL << 20},
                           {"GiB", 1ULL << 30},
                           {"TiB", 1ULL << 40}};

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc()) {
    const std::string name(end, text.data() + text.size());
    for (const Unit& unit : kUnits) {
      if (::strcasecmp(name.c_str(), unit.name) != 0 ||
          name.size() != std::string(unit.name).size())
        continue;
      if (number <= std::numeric_limits<uint64_t>::max() / unit.bytes) return number * unit.bytes;
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "\"{}\" is no number of bytes, expected a whole number and perhaps a unit (kB, MB, "
              "GB, TB, KiB, MiB, GiB, TiB), as in 8GiB",
              text.substr(0, 64));
}

}  // namespace thimble::base
