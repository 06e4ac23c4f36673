#include "arch/row_plan.h"

#include <algorithm>

#include "base/check.h"

namespace thimble::arch {
namespace {

uint64_t minus(uint64_t position, uint64_t rows) { return position > rows ? position - rows : 0; }

// First row whose projection the compressor of `layer` needs: a group that straddles the hit is
// written by the suffix, out of all of its tokens. Any row where the layer owns nothing.
uint64_t first_open_token(const LayerPlan& plan, uint32_t layer, uint64_t hit) {
  for (const Owner& owner : plan.owners) {
    if (owner.layer == layer) {
      return entry_position(entries_after(hit, owner.ratio), owner.ratio);
    }
  }
  return UINT64_MAX;
}

// Layers [first, last] exactly, from above: the top one runs from `rows_begin` on. Nothing below
// `low` exists to run.
void plan_exact(RowPlan& out, const LayerPlan& plan, uint32_t first, uint32_t last,
                uint64_t rows_begin, uint64_t low) {
  for (uint32_t l = last + 1; l-- > first;) {
    LayerRows& rows = out.layers[l];
    rows.rows_begin = std::max(rows_begin, low);
    rows.window_floor = std::max(minus(rows.rows_begin, plan.window - 1), low);
    rows.keys_begin =
        std::max(low, std::min(rows.window_floor, first_open_token(plan, l, out.hit)));
    rows_begin = rows.keys_begin;
  }
}

void plan_bounded(RowPlan& out, uint32_t first, uint32_t last, uint64_t begin) {
  for (uint32_t l = first; l <= last; ++l) out.layers[l] = {begin, begin, begin, begin > 0};
}

RowPlan plan_rows(const LayerPlan& plan, const RowPlanInput& input) {
  const uint32_t decoder = plan.decoder_begin;
  const auto top = static_cast<uint32_t>(plan.layers.size()) - 1;
  RowPlan out{.hit = input.hit, .begin = 0, .end = input.end, .layers = {}};
  out.layers.resize(plan.layers.size());
  const ReplayDepth& depth = input.depth;
  const bool encoder_bounded = !input.windows_at && depth.encoder && decoder > 0;
  // Rows below `low` do not run: a snapshot stands in for them, or the bound cuts them off.
  uint64_t low = 0;
  if (input.windows_at) {
    CHECK_LE(*input.windows_at, input.hit);
    low = *input.windows_at;
  } else if (encoder_bounded) {
    CHECK(*depth.encoder > 0);
    low = minus(input.hit, *depth.encoder);
  }

  if (depth.decoder && minus(input.end, *depth.decoder) > low) {
    CHECK(*depth.decoder >= plan.window);
    plan_bounded(out, decoder, top, minus(input.end, *depth.decoder));
  } else {
    plan_exact(out, plan, decoder, top, input.first_output, low);
  }
  // The first decoder layer projects the entries of all new tokens, bounded or not.
  LayerRows& first = out.layers[decoder];
  first.keys_begin =
      std::max(low, std::min(first.keys_begin, first_open_token(plan, decoder, input.hit)));
  if (encoder_bounded) {
    plan_bounded(out, 0, decoder - 1, low);
  } else if (decoder > 0) {
    plan_exact(out, plan, 0, decoder - 1, first.keys_begin, low);
  }
  for (LayerRows& rows : out.layers) {
    if (rows.truncated || rows.window_floor > low) continue;
    if (input.windows_at) rows.window_floor = first_visible(low, plan.window);  // restored rows
    rows.truncated = encoder_bounded && low > 0;
  }
  out.begin = out.layers[0].keys_begin;
  return out;
}

}  // namespace

uint64_t RowPlan::layer_tokens() const {
  uint64_t sum = 0;
  for (const LayerRows& rows : layers) sum += end - std::min(end, rows.rows_begin);
  return sum;
}

uint64_t decoder_cone(const LayerPlan& plan) {
  return 1 + uint64_t{plan.window - 1} * (plan.layers.size() - plan.decoder_begin);
}

RowPlan make_row_plan(const LayerPlan& plan, const RowPlanInput& input) {
  CHECK_LT(input.hit, input.end);
  CHECK_LT(input.first_output, input.end);
  const RowPlan out = plan_rows(plan, input);
  // A replay from 0 is the cold run; so is one that its depth would take there.
  const bool cold = out.begin == 0 || input.hit <= input.depth.encoder.value_or(0);
  if (input.windows_at || !cold) return out;
  RowPlanInput unbounded = input;
  unbounded.depth = {};
  return plan_rows(plan, unbounded);
}

}  // namespace thimble::arch
