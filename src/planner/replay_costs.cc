#include "planner/replay_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/replay_policy.h"
#include "base/bytes.h"
#include "base/check.h"

namespace thimble::planner {
namespace {

constexpr uint64_t kTypicalHit = 8192;
constexpr uint64_t kTypicalNewTokens = 256;

std::string cost_text(const ReplayCosts& costs, uint64_t layer_tokens) {
  std::string text = base::with_commas(layer_tokens);
  if (costs.layer_token_us) {
    const double seconds = static_cast<double>(layer_tokens) * *costs.layer_token_us * 1e-6;
    text += fmt::format(" (about {:.2g} s)", seconds);
  }
  return text;
}

}  // namespace

ReplayCosts replay_costs(const arch::LayerPlan& plan, uint64_t hit, uint64_t new_tokens) {
  CHECK(new_tokens > 0);
  const uint64_t end = hit + new_tokens;
  const auto cost = [&](uint64_t cached, std::optional<uint64_t> windows_at, arch::Replay replay) {
    const auto input = arch::row_plan_input(plan, cached, windows_at, true, end, replay);
    return arch::make_row_plan(plan, input).layer_tokens();
  };
  ReplayCosts costs;
  costs.hit = hit;
  costs.new_tokens = new_tokens;
  costs.snapshot = cost(hit, hit, arch::Replay::kExact);
  costs.exact = cost(hit, {}, arch::Replay::kExact);
  costs.automatic = cost(hit, {}, arch::Replay::kAuto);
  costs.bounded = cost(hit, {}, arch::Replay::kBounded);
  costs.cold = cost(0, {}, arch::Replay::kExact);
  return costs;
}

ReplayCosts typical_replay_costs(const arch::LayerPlan& plan, uint64_t context_tokens) {
  const uint64_t hit = std::min(kTypicalHit, context_tokens / 2);
  const uint64_t left = context_tokens - hit;
  return hit == 0 ? ReplayCosts{} : replay_costs(plan, hit, std::min(kTypicalNewTokens, left));
}

std::string to_text(const ReplayCosts& costs) {
  if (costs.hit == 0) return "";
  std::string text = fmt::format("replay    {} cached tokens and {} new ones run this many ",
                                 base::with_commas(costs.hit), base::with_commas(costs.new_tokens));
  text += "layer-tokens:\n";
  text +=
      fmt::format("          snapshot {}, exact {}, auto {},\n", cost_text(costs, costs.snapshot),
                  cost_text(costs, costs.exact), cost_text(costs, costs.automatic));
  text += fmt::format("          bounded {}, without the hit {}\n", cost_text(costs, costs.bounded),
                      cost_text(costs, costs.cold));
  if (!costs.untimed.empty()) text += fmt::format("          not timed: {}\n", costs.untimed);
  return text;
}

}  // namespace thimble::planner
