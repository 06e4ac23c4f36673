// The replay policies by the names that requests use; what they mean is decided in
// arch/replay_policy.h.
#pragma once

#include "arch/replay_policy.h"

namespace thimble::engine {

using arch::parse_replay;
using arch::Replay;
using arch::to_string;

}  // namespace thimble::engine
