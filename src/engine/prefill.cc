#include "engine/internal/prefill.h"

#include <algorithm>

#include "base/check.h"

namespace thimble::engine {
namespace {

cache::Marks marks_after(const arch::LayerPlan& plan, const arch::RowPlanInput& input,
                         const arch::RowPlan& rows, cache::Marks before) {
  cache::Marks marks = before;
  const bool rebuilt = input.windows_at && input.end - *input.windows_at >= decoder_cone(plan);
  if (!input.windows_at || rebuilt) marks.decoder_exact = true;
  for (uint32_t l = 0; l < rows.layers.size(); ++l) {
    if (!rows.layers[l].truncated) continue;
    (l < plan.decoder_begin ? marks.encoder_exact : marks.decoder_exact) = false;
  }
  return marks;
}

}  // namespace

cache::Exactness exactness(Replay replay) {
  switch (replay) {
    case Replay::kAuto:
      return cache::Exactness::kEncoderExact;
    case Replay::kExact:
      return cache::Exactness::kExact;
    case Replay::kBounded:
      return cache::Exactness::kAny;
  }
  return cache::Exactness::kExact;
}

uint64_t route_cost(const arch::LayerPlan& plan, const Route& route, uint64_t prompt_tokens,
                    Replay replay) {
  const auto input = row_plan_input(plan, route.hit, route.windows_at, route.marks.decoder_exact,
                                    prompt_tokens, replay);
  return make_row_plan(plan, input).layer_tokens();
}

Route choose_route(const arch::LayerPlan& plan, uint64_t hit,
                   std::span<const cache::SnapshotUse> snapshots, uint64_t prompt_tokens,
                   Replay replay) {
  const auto cost = [&](const Route& route) {
    return route_cost(plan, route, prompt_tokens, replay);
  };
  Route best{.hit = hit, .windows_at = {}, .marks = {}, .snapshot = nullptr};
  uint64_t best_cost = cost(best);
  for (const cache::SnapshotUse& use : snapshots) {
    // Private entries end where their snapshot does.
    const uint64_t adopted = use.marks.encoder_exact ? std::max(hit, use.position) : use.position;
    const Route route{
        .hit = adopted, .windows_at = use.position, .marks = use.marks, .snapshot = &use};
    const uint64_t route_cost = cost(route);
    if (route_cost > best_cost || (route_cost == best_cost && best.snapshot != nullptr)) continue;
    best = route;
    best_cost = route_cost;
  }
  return best;
}

Prefill::Prefill(const arch::LayerPlan& plan, const Route& route, uint64_t prompt_tokens,
                 Replay replay, std::vector<uint64_t> snapshot_points, bool snapshots,
                 PromptOutputs outputs)
    : plan_(plan),
      replay_(replay),
      outputs_(outputs),
      hit_(route.hit),
      windows_at_(route.windows_at),
      marks_(route.marks) {
  CHECK_LT(route.hit, prompt_tokens);
  CHECK(outputs == PromptOutputs::kLast || route.hit == 0);
  // Too close to where inexact windows are, or none, a snapshot would cost the rest of the prompt
  // its exactness: the decoder could not be rebuilt before it.
  const bool inexact = windows_at_ ? !marks_.decoder_exact : hit_ > 0;
  const uint64_t from = windows_at_.value_or(hit_);
  const bool rebuilds =
      replay == Replay::kAuto && inexact && prompt_tokens - from >= arch::decoder_cone(plan);
  const uint64_t first = std::max(hit_ + 1, rebuilds ? from + arch::decoder_cone(plan) : 0);
  std::vector<uint64_t>& points = snapshot_points;
  for (uint64_t p = kSnapshotTokens; p < prompt_tokens; p += kSnapshotTokens) points.push_back(p);
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  for (const uint64_t p : points) {
    if (snapshots && p >= first && p < prompt_tokens) ends_.push_back({p, true});
  }
  // A snapshot serves the position before its own too.
  const bool covered = !ends_.empty() && ends_.back().position + 1 == prompt_tokens;
  ends_.push_back({prompt_tokens, snapshots && !covered});
  plan_segment();
  begin_ = rows_.begin;
}

void Prefill::plan_segment() {
  auto input = row_plan_input(plan_, hit_, windows_at_, marks_.decoder_exact, ends_[next_].position,
                              replay_);
  if (outputs_ == PromptOutputs::kAll) input.first_output = hit_;
  rows_ = make_row_plan(plan_, input);
  marks_ = marks_after(plan_, input, rows_, marks_);
}

void Prefill::end_segment() {
  CHECK(!done());
  hit_ = ends_[next_].position;
  windows_at_ = hit_;
  ++next_;
  if (!done()) plan_segment();
}

}  // namespace thimble::engine
