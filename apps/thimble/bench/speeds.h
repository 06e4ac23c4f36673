// Tokens a second of one answered request.
#pragma once

#include <cstdint>

#include "engine/request.h"

namespace thimble::app {

struct Speeds {
  double prefill = 0;  // of the prompt, to the first token of the answer
  double decode = 0;   // of the tokens after the first; 0 where there are none
};

inline double per_second(uint64_t tokens, int64_t us) {
  return us > 0 ? 1e6 * static_cast<double>(tokens) / static_cast<double>(us) : 0;
}

inline Speeds speeds_of(const engine::GenerationEnd& end) {
  const uint64_t decoded = end.completion_tokens > 0 ? end.completion_tokens - 1 : 0;
  return {per_second(end.prompt_tokens, end.prefill_us), per_second(decoded, end.decode_us)};
}

}  // namespace thimble::app
