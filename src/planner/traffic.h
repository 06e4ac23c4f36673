// Bytes that a decoded token reads: weights by kind, cached rows by kind.
//
// Each weight once (batch 1); each cached row once; look-ups of embedding and Engram rows as the
// rows they are. Source: design section 6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config.h"
#include "arch/weight_table.h"

namespace thimble::planner {

struct TrafficLine {
  std::string what;
  double bytes = 0;
};

struct Traffic {
  // Routed experts, attention (what every layer has of it), shared expert, head, rest.
  std::vector<TrafficLine> weights;
  std::vector<TrafficLine> cache;  // window rows, selected entries, index rows

  double weight_bytes() const;
  double cache_bytes() const;
  double routed_bytes() const;  // of weights: routed experts
};

Traffic decode_traffic(const arch::Config& config, uint64_t position);

// Its halves: the first does not depend on the position.
std::vector<TrafficLine> weight_traffic(const arch::Config& config);
std::vector<TrafficLine> cache_traffic(const arch::Config& config, uint64_t position);

// The weights and cached rows of each layer, [layers] bytes: all but the embedding's row, the final
// norm and the head.
std::vector<double> layer_traffic(const arch::Config& config, uint64_t position);

// The layer that a tensor belongs to; empty for what lies outside of the layers.
std::optional<uint32_t> layer_of(std::string_view tensor);

// How much of a backbone tensor one row reads: the experts it is sent to, the rows it looks up.
double row_share(const arch::Config& config, const arch::ExpectedTensor& tensor);

// The checkpoint by how it is read.
struct WeightGroups {
  uint64_t dense = 0;    // by every token
  uint64_t experts = 0;  // those a token is sent to
  uint64_t engram = 0;   // rows that it looks up
  uint64_t others = 0;   // vision and drafts

  uint64_t total() const { return dense + experts + engram + others; }
};
WeightGroups group_weights(const arch::Config& config);

}  // namespace thimble::planner
