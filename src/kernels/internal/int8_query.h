// A query of MXFP4 values as the int8 codes it was rounded to.
#pragma once

#include <cstdint>

#include "kernels/internal/table_entries.h"
#include "kernels/workspace.h"

namespace thimble::kernels::internal {

// q: [heads, dims], dims a multiple of 32. Without codes where some value is no multiple of a half
// of a power of two up to six of them, its group's: the query was not rounded then. In the
// workspace. A pure function of q.
Int8Query make_int8_query(const float* q, uint32_t heads, uint32_t dims, Workspace& workspace);

// Without codes where the scales of some head lie too far apart, or where scores over any keys
// might under- or overflow on the way. q: of make_int8_query(), with codes. In the workspace.
LevelQuery make_level_query(const Int8Query& q, const float* head_weights, uint32_t heads,
                            uint32_t dims, Workspace& workspace);

}  // namespace thimble::kernels::internal
