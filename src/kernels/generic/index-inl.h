// Index scores of 16 entries at once, one lane an entry (backbone spec 6.3).
#pragma once

#include <cstdint>

#include "kernels/internal/table_entries.h"

namespace thimble::kernels::generic {

// Dot products of kHeads heads from `head` on, rectified, weighted and added to `score` in order.
template <class V, uint32_t kHeads>
[[gnu::always_inline]] inline V score_heads(const ScoreTile& task, uint32_t head, V score) {
  const float* q = task.q + uint64_t{head} * task.dims;
  V dot[kHeads];
#pragma GCC unroll 8
  for (uint32_t h = 0; h < kHeads; ++h) dot[h] = V::zero();
  for (uint32_t begin = 0; begin < task.dims; begin += 32) {
    const uint32_t end = task.dims - begin < 32 ? task.dims : begin + 32;
    V part[kHeads];
#pragma GCC unroll 8
    for (uint32_t h = 0; h < kHeads; ++h) part[h] = V::zero();
    for (uint32_t d = begin; d < end; ++d) {
      const V key = V::load(task.keys + d * 16);
#pragma GCC unroll 8
      for (uint32_t h = 0; h < kHeads; ++h) {
        part[h] = fma(V::set(q[uint64_t{h} * task.dims + d]), key, part[h]);
      }
    }
#pragma GCC unroll 8
    for (uint32_t h = 0; h < kHeads; ++h) dot[h] = dot[h] + part[h];
  }
#pragma GCC unroll 8
  for (uint32_t h = 0; h < kHeads; ++h) {
    score = fma(V::set(task.head_weights[head + h]), max(V::zero(), dot[h]), score);
  }
  return score;
}

template <class V>
void score_tile(const ScoreTile& task, float* out) {
  V score = V::zero();
  uint32_t head = 0;
  for (; head + V::kIndexHeads <= task.heads; head += V::kIndexHeads) {
    score = score_heads<V, V::kIndexHeads>(task, head, score);
  }
  for (; head < task.heads; ++head) score = score_heads<V, 1>(task, head, score);
  score.store(out);
}

}  // namespace thimble::kernels::generic
