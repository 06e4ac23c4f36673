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

// The same over int8 codes. A piece of 64 bytes has four dimensions of 16 entries, which is what
// the dots of packed weights read (packed-inl.h): eight pieces a group.
template <class V, class I, uint32_t kHeads>
[[gnu::always_inline]] inline V score_heads_int8(const Int8ScoreTile& task, uint32_t head,
                                                 V score) {
  const uint32_t groups = task.dims / 32;
  V dot[kHeads];
#pragma GCC unroll 8
  for (uint32_t h = 0; h < kHeads; ++h) dot[h] = V::zero();
  for (uint32_t g = 0; g < groups; ++g) {
    const int8_t* at[kHeads];
    typename I::Acc acc[kHeads];
#pragma GCC unroll 8
    for (uint32_t h = 0; h < kHeads; ++h) {
      at[h] = task.q.codes + uint64_t{head + h} * task.dims + uint64_t{g} * 32;
      acc[h] = I::set(task.q.offsets[(head + h) * groups + g]);
    }
    I::template dot<kHeads>(typename I::ExpandedCodes{task.keys + uint64_t{g} * 512}, at, acc);
    const V key_scale = V::load_e8m0(task.key_scales + uint64_t{g} * 16);
#pragma GCC unroll 8
    for (uint32_t h = 0; h < kHeads; ++h) {
      const V scale = key_scale * V::set(task.q.scales[(head + h) * groups + g]);
      dot[h] = dot[h] + I::to_float(acc[h]) * scale;
    }
  }
#pragma GCC unroll 8
  for (uint32_t h = 0; h < kHeads; ++h) {
    score = fma(V::set(task.head_weights[head + h]), max(V::zero(), dot[h]), score);
  }
  return score;
}

template <class V, class I>
void score_tile_int8(const Int8ScoreTile& task, float* out) {
  V score = V::zero();
  uint32_t head = 0;
  for (; head + I::kRows <= task.heads; head += I::kRows) {
    score = score_heads_int8<V, I, I::kRows>(task, head, score);
  }
  for (; head < task.heads; ++head) score = score_heads_int8<V, I, 1>(task, head, score);
  score.store(out);
}

}  // namespace thimble::kernels::generic
