// How far a request lets window state be rebuilt instead of kept. docs/replay.md.
#pragma once

#include <string_view>

#include "base/result.h"

namespace thimble::engine {

enum class Replay {
  kAuto,     // entries always exact; decoder windows exact unless the new text is short after a hit
  kExact,    // every bit as in an uninterrupted run
  kBounded,  // one window of rows in either half; what it computes stays private to its sequence
};

// "auto", "exact", "bounded"; kInvalidArgument lists them.
Result<Replay> parse_replay(std::string_view name);
const char* to_string(Replay replay);

}  // namespace thimble::engine
