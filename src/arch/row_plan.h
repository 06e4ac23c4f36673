// Which rows of a sequence run in which layer: the one function that replay, decoder tail and
// planner share.
//
// Two facts make a prompt cheap. Global KV is written by layers up to the last owner D alone, so
// the decoder (layers from D on) needs to run only for the rows whose output or window somebody
// will read. And a cached prefix of H tokens brings its global entries along, but no windows: those
// are rebuilt by running rows below H again (replay), which writes no entry below H.
//
// W = window, L = layers. Exactly, a query of layer l needs the W - 1 keys before it, which are
// outputs of layer l - 1: each layer runs W - 1 more rows than the one above it. Bounded to a depth
// d, every row from max(0, H - d) on runs in the encoder, and the last d rows in the decoder, and
// no key below the first of them is read. Source: serving spec 5 and 6; docs/replay.md.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/layer_plan.h"

namespace thimble::arch {

// Rows of one layer, as positions. Rows in [keys_begin, rows_begin) only leave their key in the
// window (and their entry, in an owner); rows from rows_begin on run the whole layer.
struct LayerRows {
  uint64_t keys_begin = 0;
  uint64_t rows_begin = 0;
  uint64_t window_floor = 0;  // no key below it is read
  bool truncated = false;     // may the floor cut a window short?
};

struct RowPlan {
  uint64_t hit = 0;               // entries of tokens below it exist and are not written again
  uint64_t begin = 0;             // first row that runs in the first layer
  uint64_t end = 0;               // rows run up to here
  std::vector<LayerRows> layers;  // [num_hidden_layers]

  // Rows that run a whole layer, summed over the layers: what the plan costs.
  uint64_t layer_tokens() const;
  // Rows below the hit that run again.
  uint64_t replayed_tokens() const { return hit > begin ? hit - begin : 0; }
};

// How far window state is rebuilt. Empty: exactly. A replay that begins at 0 is the cold run, and
// bounds nothing in either half.
struct ReplayDepth {
  std::optional<uint64_t> encoder;  // rows before the hit, at least 1
  std::optional<uint64_t> decoder;  // rows before the end, at least W
};

struct RowPlanInput {
  uint64_t hit = 0;
  // Position of a snapshot whose windows (and open groups) are at hand, at most `hit`: nothing
  // before it runs.
  std::optional<uint64_t> windows_at;
  uint64_t end = 0;           // above `hit`
  uint64_t first_output = 0;  // first row whose logits are wanted, below `end`
  ReplayDepth depth;
};

RowPlan make_row_plan(const LayerPlan& plan, const RowPlanInput& input);

// Rows of the first decoder layer's keys that the last row's logits depend on:
// 1 + (W - 1)(L - D); 2,541 for the released model.
uint64_t decoder_cone(const LayerPlan& plan);

}  // namespace thimble::arch
