// One document of a synthetic task: tokens, and where an answer is scored.
//
// Tokens are small numbers from 0; whoever mixes a task into a vocabulary adds an offset. Plain
// data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble::tasks {

struct Sample {
  std::vector<int32_t> tokens;
  std::vector<int32_t> answers;  // [tokens] what must be said after this token, or -1
};

}  // namespace thimble::tasks
