// What tells one set of weights from another, so that cached bytes never meet foreign weights.
//
// XXH3-128 over config.json and the names, dtypes, shapes and values of all tensors, in name order.
// Experts are sampled, some bytes of each tensor's codes and scales at fixed places, and so are
// Engram tables of more than 1 GiB. Everything else is read whole, so it takes time: it is for
// caches that outlive a process. Guards against mistakes, not against an adversary. Why these:
// docs/decisions/0003-fingerprint.md.
#pragma once

#include <array>
#include <cstddef>

#include "arch/checkpoint.h"

namespace thimble::arch {

using Fingerprint = std::array<std::byte, 16>;

Fingerprint fingerprint(const Checkpoint& checkpoint);

}  // namespace thimble::arch
