#include "engine/replay_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "arch/row_plan.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "engine/forced_run.h"
#include "engine/internal/prefill.h"

namespace thimble::engine {
namespace {

constexpr uint64_t kTypicalHit = 8192;
constexpr uint64_t kTypicalNewTokens = 256;
constexpr uint64_t kMeasuredRowsMax = 64;
constexpr int64_t kLongEnoughUs = 100'000;

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
  const auto cost = [&](uint64_t cached, std::optional<uint64_t> windows_at, Replay replay) {
    const auto input = row_plan_input(plan, cached, windows_at, true, end, replay);
    return make_row_plan(plan, input).layer_tokens();
  };
  ReplayCosts costs;
  costs.hit = hit;
  costs.new_tokens = new_tokens;
  costs.snapshot = cost(hit, hit, Replay::kExact);
  costs.exact = cost(hit, {}, Replay::kExact);
  costs.automatic = cost(hit, {}, Replay::kAuto);
  costs.bounded = cost(hit, {}, Replay::kBounded);
  costs.cold = cost(0, {}, Replay::kExact);
  return costs;
}

ReplayCosts typical_replay_costs(const arch::LayerPlan& plan, uint64_t context_tokens) {
  const uint64_t hit = std::min(kTypicalHit, context_tokens / 2);
  const uint64_t left = context_tokens - hit;
  return hit == 0 ? ReplayCosts{} : replay_costs(plan, hit, std::min(kTypicalNewTokens, left));
}

Result<double> measure_layer_token(const model::Model& model, uint64_t context_tokens,
                                   uint32_t threads) {
  base::ThreadPool pool(threads);
  const uint64_t layers = model.plan().layers.size();
  // The first step also brings the weights into memory: it is run twice.
  double best_us = 0;
  uint64_t rows = std::min<uint64_t>(8, context_tokens);
  for (bool warm = false;; warm = true) {
    std::vector<int32_t> ids(rows);
    for (uint64_t i = 0; i < rows; ++i) {
      ids[i] = static_cast<int32_t>(i * 7 % model.config().vocab_size);
    }
    auto sequence = THIMBLE_TRY(ForcedSequence::create(model, rows, pool));
    const int64_t begun_us = base::monotonic_us();
    THIMBLE_TRY(sequence.run(ids, {}, {}));
    const int64_t took_us = base::monotonic_us() - begun_us;
    best_us = static_cast<double>(took_us) / static_cast<double>(rows * layers);
    const bool last =
        took_us >= kLongEnoughUs || rows >= std::min(kMeasuredRowsMax, context_tokens);
    if (warm && last) return best_us;
    if (warm) rows = std::min({2 * rows, kMeasuredRowsMax, context_tokens});
  }
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

}  // namespace thimble::engine
