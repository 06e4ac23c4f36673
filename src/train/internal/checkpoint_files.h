// Between stacked training tensors and a checkpoint in the released layout.
//
// Export writes exactly what stored_value() computes with, so that a model trained with stored
// values loses nothing. Import takes any checkpoint of the configuration, also one of random
// weights.
#pragma once

#include <string>

#include "arch/checkpoint.h"
#include "train/internal/weights.h"

namespace thimble::train::internal {

// float32, in the order of `parameters`.
std::vector<Tensor> import_values(const arch::Checkpoint& checkpoint,
                                  const std::vector<Parameter>& parameters);

// config.json and model.safetensors. The directory must exist.
Result<void> export_values(const arch::Config& config, const std::vector<Parameter>& parameters,
                           const std::vector<Tensor>& values, const Path& directory);

}  // namespace thimble::train::internal
