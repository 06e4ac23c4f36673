// Why a request was refused: everything that can be known before it waits in the queue.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/request.h"

namespace thimble::engine {

struct AdmissionLimits {
  uint32_t vocab_size = 0;
  uint64_t context_tokens = 0;  // longest prompt + answer
};

// kInvalidArgument names the field, what it held and what it may hold.
Result<void> admit(const GenerationRequest& request, const AdmissionLimits& limits);

}  // namespace thimble::engine
