// The function table of one vector type and its integer half.
#pragma once

#include "kernels/generic/attend-inl.h"
#include "kernels/generic/decode-inl.h"
#include "kernels/generic/index-inl.h"
#include "kernels/generic/linear-inl.h"
#include "kernels/generic/packed-inl.h"
#include "kernels/generic/rows-inl.h"
#include "kernels/internal/table_entries.h"

namespace thimble::kernels::generic {

template <class V, class I>
inline constexpr Table kTableOf = {
    .name = I::kName,
    .linear = linear<V>,
    .quantize_row = quantize_row<V>,
    .packed_fp4 = packed_fp4<V, I>,
    .packed_fp8 = packed_fp8<V>,
    .tile_rows = tile_rows<V>,
    .decode_weight = decode_weight<V>,
    .decode_row = decode_row<V>,
    .decode_tile = decode_tile<V>,
    .decode_fp8 = decode_fp8<V>,
    .sum_of_squares = sum_of_squares<V>,
    .scale_row = scale_row<V>,
    .add_row = add_row<V>,
    .exp = exp<V>,
    .router_scores = router_scores<V>,
    .swiglu_row = swiglu_row<V>,
    .pool_pair = pool_pair<V>,
    .hc_collapse = hc_collapse<V>,
    .hc_post = hc_post<V>,
    .engram_gate = engram_gate<V>,
    .engram_add = engram_add<V>,
    .attend = attend<V>,
    .attend_heads = V::Tiles::kScoreHeads,
    .score_tile = score_tile<V>,
    .expand_tile = I::expand_tile,
    .score_tile_int8 = score_tile_int8<V, I>,
    .level_tile = nullptr,
    .score_level = nullptr,
};

}  // namespace thimble::kernels::generic
