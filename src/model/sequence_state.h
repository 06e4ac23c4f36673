// What a sequence carries from step to step besides its cached rows: position, the open half of
// ratio-2 groups, recent Engram ids, and which window keys are at hand.
//
// A value: copying it copies the state (a snapshot), assigning it back rewinds. Owned by the
// engine; only forward() changes it. Source: backbone spec 6.1, 6.8; engram spec 2.9.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace thimble::model {

// Projections of a ratio-2 group's first token. Kept once the group is complete too, so that a
// sequence can go back by one token.
struct HalfPair {
  std::optional<uint64_t> token;  // empty: none was seen since the sequence began or resumed
  std::vector<float> value;       // [head_dim]: compressor.wkv of it
  std::vector<float> gate;        // [head_dim]: compressor.wgate of it
};

// Keys of one layer's window: rows [begin, end) are at hand, and none below `begin` is read.
struct WindowSpan {
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SequenceState {
  uint64_t position = 0;                // tokens processed
  std::vector<HalfPair> half_pairs;     // [owners]; used at ratio 2
  std::vector<WindowSpan> windows;      // [layers]
  std::vector<int32_t> engram_history;  // compressed ids of the last tokens, oldest first
  std::optional<uint32_t>
      published_keys;  // owner that published index keys last (stale-key compat)
};

// What a snapshot needs of a state: position, open groups and window spans. The rest follows from
// the token ids (Model::sequence_at).
std::vector<std::byte> to_bytes(const SequenceState& state);

// Puts what to_bytes() wrote into `state`, which Model::sequence_at() made for the same position or
// the one before it (the state then goes back by that token). kCorrupt when the bytes do not fit.
Result<void> restore_bytes(std::span<const std::byte> bytes, SequenceState& state);

}  // namespace thimble::model
