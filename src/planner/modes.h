// What each layer does with the cache, as a short text: `2xS, F2, 5xU, F1, R, U`.
//
// S window only; F2 a Full layer that owns entries of two tokens each (any ratio that divides a
// block); R Reindex, its own selection among its owner's entries; U Reuse, the selection of the
// last layer that made one. `5xU` repeats. The planner takes any mix; a configuration can state
// those of ratio 1 and 2. Source: backbone spec section 1.2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config.h"
#include "arch/layer_plan.h"
#include "base/result.h"

namespace thimble::planner {

struct LayerMode {
  arch::AttentionMode mode = arch::AttentionMode::kWindow;
  uint32_t ratio = 0;  // of the entries it reads; 0: none

  bool operator==(const LayerMode&) const = default;
};

// kInvalidArgument names the item that is wrong. At most 1,024 layers.
Result<std::vector<LayerMode>> parse_modes(std::string_view text);
std::string to_string(const std::vector<LayerMode>& modes);

std::vector<LayerMode> modes_of(const arch::Config& config);

// `config` with these layers: what belongs to layers that are gone (Engram, draft inputs) goes with
// them, and the last Full layer of ratio 1 makes the candidates if one did. kUnsupported for ratios
// that a checkpoint cannot state.
Result<arch::Config> with_modes(const arch::Config& config, const std::vector<LayerMode>& modes);

}  // namespace thimble::planner
