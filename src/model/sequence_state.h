// What a sequence carries from step to step besides its cached rows: position, the open half of
// ratio-2 groups, recent Engram ids.
//
// A value: copying it copies the state (a snapshot), assigning it back rewinds. Owned by the
// engine; only forward() changes it. Source: backbone spec 6.1, 6.8; engram spec 2.9.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace thimble::model {

struct HalfPair {
  std::vector<float> value;  // [head_dim]: compressor.wkv of the open group's first token
  std::vector<float> gate;   // [head_dim]: compressor.wgate of it
};

struct SequenceState {
  uint64_t position = 0;                // tokens processed
  std::vector<HalfPair> half_pairs;     // [owners]; meaningful when position is odd and ratio 2
  std::vector<int32_t> engram_history;  // compressed ids of the last tokens, oldest first
  std::optional<uint32_t>
      published_keys;  // owner that published index keys last (stale-key compat)
};

}  // namespace thimble::model
