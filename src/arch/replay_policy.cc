#include "arch/replay_policy.h"

namespace thimble::arch {

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

RowPlanInput row_plan_input(const LayerPlan& plan, uint64_t hit, std::optional<uint64_t> windows_at,
                            bool windows_exact, uint64_t end, Replay replay) {
  RowPlanInput input;
  input.hit = hit;
  input.windows_at = windows_at;
  input.end = end;
  input.first_output = end - 1;
  if (replay == Replay::kExact) return input;
  const bool rebuilds = end - windows_at.value_or(hit) >= decoder_cone(plan);
  if (windows_at) {
    if (!windows_exact && !rebuilds) input.depth.decoder = plan.window;
  } else if (replay == Replay::kBounded) {
    input.depth = {plan.window, plan.window};
  } else if (hit > 0 && !rebuilds) {
    input.depth.decoder = plan.window;
  }
  return input;
}

}  // namespace thimble::arch
