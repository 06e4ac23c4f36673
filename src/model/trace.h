// A tap on a forward pass: named rows of intermediate values, for tests, `logits` and teaching.
//
// Names are those of the golden vectors: "topk.L", "candidates.L", "expert_ids.layers.L",
// "hidden.layers.L", "latent.L", ... docs/model.md lists them. Only what a sink asks for is
// computed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace thimble::model {

class Trace {
 public:
  virtual ~Trace() = default;
  // Does the sink want this quantity ("topk", "hidden.layers", ...)?
  virtual bool wants(std::string_view quantity) const = 0;
  // Row `row` (a position, or an entry for "latent", "compress_kv", "index_k") of `quantity`, layer
  // `layer`. The spans are valid during the call.
  virtual void floats(std::string_view quantity, uint32_t layer, uint64_t row,
                      std::span<const float> values) = 0;
  virtual void ints(std::string_view quantity, uint32_t layer, uint64_t row,
                    std::span<const int32_t> values) = 0;
};

}  // namespace thimble::model
