// What tells one set of weights from another, so that cached bytes never meet foreign weights.
//
// XXH3-128 over names, dtypes, shapes and values of all tensors, in name order. Experts and Engram
// tables are most of a checkpoint and are sampled: some bytes of each tensor's codes and scales at
// fixed places. Everything else is read whole. Guards against mistakes, not against an adversary.
#pragma once

#include <array>
#include <cstddef>

#include "arch/checkpoint.h"

namespace thimble::arch {

using Fingerprint = std::array<std::byte, 16>;

Fingerprint fingerprint(const Checkpoint& checkpoint);

}  // namespace thimble::arch
