// The state of a run in one safetensors file: weights, momenta, counters. Exact: what is read is
// what was written, so a resumed run goes on to the bit.
#pragma once

#include "train/internal/learner.h"

namespace thimble::train::internal {

struct Counters {
  int64_t epoch = 0;
  int64_t row = 0;     // next row of the epoch
  int64_t tokens = 0;  // trained on so far
  int64_t data = 0;    // fingerprint of the rows that the run reads
};

Result<void> write_state(const Path& file, const std::vector<Parameter>& parameters,
                         const LearnerState& state, const Counters& counters);

// Refuses a state of another configuration by the first tensor that does not fit.
Result<Counters> read_state(const Path& file, const std::vector<Parameter>& parameters,
                            LearnerState& state);

}  // namespace thimble::train::internal
