// One table of layer roles, and the rules of visibility that every part of the system shares.
//
// Sources: backbone spec sections 1.2 (roles), 5.2 (window), 6.1 (entries), 6.8 (chunking).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/config.h"

namespace thimble::arch {

enum class AttentionMode {
  kWindow,   // window only (ratio 0)
  kFull,     // owns compressed KV, index keys and an indexer
  kReindex,  // own index queries, keys and KV of its owner
  kReuse,    // KV of its owner, selection of the last index source
};

const char* to_string(AttentionMode mode);

struct LayerRole {
  uint32_t layer = 0;
  uint32_t ratio = 0;  // tokens per entry of the cache it reads; 0: none
  AttentionMode mode = AttentionMode::kWindow;
  std::optional<uint32_t> owner;         // index into LayerPlan::owners
  std::optional<uint32_t> kv_source;     // the owner's layer
  std::optional<uint32_t> index_source;  // layer whose selection it attends
  bool makes_candidates = false;         // publishes the candidate mask
  bool uses_candidates = false;          // its selection is restricted by that mask
  std::optional<uint32_t> engram;        // index into EngramConfig::layer_ids
  bool compressed_rope = false;  // ratio > 0: compressed theta with YaRN, for all it rotates

  bool selects() const { return mode == AttentionMode::kFull || mode == AttentionMode::kReindex; }
};

// A layer that owns global KV.
struct Owner {
  uint32_t layer = 0;
  uint32_t ratio = 0;
};

struct LayerPlan {
  std::vector<LayerRole> layers;  // [num_hidden_layers]
  std::vector<Owner> owners;      // ascending layer
  uint32_t window = 0;
  // First layer of the decoder half: the last owner, D. Layers from it on write no entries but D's,
  // which are projected from its input. 0 when no layer owns global KV.
  uint32_t decoder_begin = 0;
};

// REQUIRES: a validated config.
LayerPlan make_layer_plan(const Config& config);

// First position of the sliding window of a query at `position`: the window holds `window` tokens,
// the query's own included.
constexpr uint64_t first_visible(uint64_t position, uint32_t window) {
  return position + 1 > window ? position + 1 - window : 0;
}

// Entries of ratio `ratio` that a query at `position` may see: those whose last token is not after
// it.
constexpr uint64_t visible_entries(uint64_t position, uint32_t ratio) {
  return ratio == 0 ? 0 : (position + 1) / ratio;
}

// Entries that exist once `tokens` tokens were processed.
constexpr uint64_t entries_after(uint64_t tokens, uint32_t ratio) {
  return ratio == 0 ? 0 : tokens / ratio;
}

// Position at which entry `entry` is rotated: its first token.
constexpr uint64_t entry_position(uint64_t entry, uint32_t ratio) { return entry * ratio; }

}  // namespace thimble::arch
