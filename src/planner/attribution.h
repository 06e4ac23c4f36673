// Where the bytes went: the cache of a mix of layers with sharing off and on, in three formats, at
// its own compression ratios or none.
//
// Sharing off: every layer with a global branch stores entries of its own. Values are those of a
// main and an index row together, the same in every point of the lattice; scales are those of the
// format. Source: design section 2; backbone spec section 7.4.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cache_design.h"
#include "planner/modes.h"

namespace thimble::planner {

struct LatticePoint {
  bool shared = false;      // owners alone store entries
  bool compressed = false;  // at the mix's ratios; else every token is an entry
  ValueFormat format = ValueFormat::kBf16;
  double entries_per_token = 0;
  double payload_bytes = 0;  // a token, scales not counted
  double bytes = 0;          // a token, with scales
};

struct Attribution {
  uint32_t values = 0;               // of a main and an index row
  std::vector<LatticePoint> points;  // unshared before shared, BF16 to FP4, uncompressed first
  // At the mix's own point: what sharing alone divides FP8 payload by, and what FP4 (with its
  // scales) then divides the shared FP8 payload by.
  double sharing_factor = 0;
  double format_factor = 0;

  const LatticePoint& at(bool shared, bool compressed, ValueFormat format) const;
};

Attribution attribute(const std::vector<LayerMode>& modes, uint32_t latent, uint32_t index);

}  // namespace thimble::planner
