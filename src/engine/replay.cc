#include "engine/replay.h"

namespace thimble::engine {

Result<Replay> parse_replay(std::string_view name) {
  for (const Replay replay : {Replay::kAuto, Replay::kExact, Replay::kBounded}) {
    if (name == to_string(replay)) return replay;
  }
  return base::fail(ErrorCode::kInvalidArgument, "\"{}\" is not one of auto, exact, bounded", name);
}

const char* to_string(Replay replay) {
  switch (replay) {
    case Replay::kAuto:
      return "auto";
    case Replay::kExact:
      return "exact";
    case Replay::kBounded:
      return "bounded";
  }
  return "?";
}

}  // namespace thimble::engine
