// Which tensors a checkpoint must hold: names, dtypes and shapes, from the configuration alone.
//
// Source: backbone spec section 2.3, engram-dspark-vision spec section 2.2. For the released
// configuration the table has exactly 96,085 tensors and 510,286,023,000 bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/config.h"
#include "arch/safetensors.h"

namespace thimble::arch {

enum class WeightPart {
  kExperts,
  kEngram,
  kAttention,
  kBackboneOther,
  kVision,
  kDraft,
  kEmbedding
};

const char* to_string(WeightPart part);

struct ExpectedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  WeightPart part = WeightPart::kBackboneOther;
  bool optional = false;  // `gate.bias_vl` of models without vision

  uint64_t bytes() const;
  uint64_t parameters() const;  // values a model learns: two in an FP4 byte, none in a scale
};

// In checkpoint order: globals, layers, drafts, vision.
std::vector<ExpectedTensor> expected_tensors(const Config& config);

// Does text run it? Vision and drafts it does not.
bool is_backbone(const ExpectedTensor& tensor);

// Bytes of the matrices that a text model may lay out for speed (numeric/packed_layout.h).
struct PackedWeightBytes {
  uint64_t dense = 0;         // read by every token
  uint64_t experts = 0;       // routed ones
  uint64_t dense_source = 0;  // what the checkpoint has of the same
  uint64_t experts_source = 0;
};
PackedWeightBytes packed_weight_bytes(const Config& config);

struct WeightTotals {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t parameters = 0;
};
// Without the optional ones.
WeightTotals totals(const std::vector<ExpectedTensor>& table);

}  // namespace thimble::arch
