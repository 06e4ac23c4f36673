// How long a layer-token takes on this machine, for the costs that the planner counts in them.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/forward.h"

namespace thimble::engine {

// Microseconds of a row through a layer: a few rows through a sequence of their own, doubled until
// they take long enough to be timed.
Result<double> measure_layer_token(const model::Model& model, uint64_t context_tokens,
                                   uint32_t threads);

}  // namespace thimble::engine
