#include "arch/layer_plan.h"

#include <algorithm>

#include "base/check.h"

namespace thimble::arch {
namespace {

// Position of `layer` in `list`, if it is there.
std::optional<uint32_t> index_of(const std::vector<uint32_t>& list, uint32_t layer) {
  const auto it = std::ranges::find(list, layer);
  if (it == list.end()) return std::nullopt;
  return static_cast<uint32_t>(it - list.begin());
}

}  // namespace

const char* to_string(AttentionMode mode) {
  switch (mode) {
    case AttentionMode::kWindow:
      return "window";
    case AttentionMode::kFull:
      return "full";
    case AttentionMode::kReindex:
      return "reindex";
    case AttentionMode::kReuse:
      return "reuse";
  }
  return "?";
}

LayerPlan make_layer_plan(const Config& config) {
  LayerPlan plan;
  plan.window = config.sliding_window;
  // What compressed layers below read, as the loop passes each source.
  std::optional<uint32_t> owner, kv_source, index_source, candidate_owner;
  for (uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    LayerRole role;
    role.layer = layer;
    role.ratio = config.compress_ratios[layer];
    role.engram = index_of(config.engram.layer_ids, layer);
    if (role.ratio > 0) {
      const bool owns = index_of(config.kv_source_layer_ids, layer).has_value();
      const bool selects = index_of(config.index_source_layer_ids, layer).has_value();
      if (owns) {
        owner = static_cast<uint32_t>(plan.owners.size());
        kv_source = layer;
        plan.owners.push_back({layer, role.ratio});
        plan.decoder_begin = layer;
      }
      if (selects) index_source = layer;
      CHECK(owner && index_source);
      CHECK_EQ(plan.owners[*owner].ratio, role.ratio);
      role.mode = owns      ? AttentionMode::kFull
                  : selects ? AttentionMode::kReindex
                            : AttentionMode::kReuse;
      role.owner = owner;
      role.kv_source = kv_source;
      role.index_source = index_source;
      role.compressed_rope = true;
      role.makes_candidates = config.candidate_source_layer_id == layer;
      if (role.makes_candidates) candidate_owner = owner;
      // The mask speaks of one owner's entries, so only its borrowers can use it.
      role.uses_candidates =
          role.mode == AttentionMode::kReindex && candidate_owner && candidate_owner == owner;
    }
    plan.layers.push_back(role);
  }
  return plan;
}

}  // namespace thimble::arch
