// Index scores of 16 entries at once, one lane an entry (backbone spec 6.3).
#pragma once

#include <cstdint>

#include "kernels/internal/fetch.h"
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
  for (; head + V::Tiles::kIndexHeads <= task.heads; head += V::Tiles::kIndexHeads) {
    score = score_heads<V, V::Tiles::kIndexHeads>(task, head, score);
  }
  for (; head < task.heads; ++head) score = score_heads<V, 1>(task, head, score);
  score.store(out);
}

// The same over int8 codes. A piece of 64 bytes has four dimensions of 16 entries, which is what
// the dots of packed weights read (packed-inl.h): eight pieces a group. They stay in registers
// while all heads pass by, whose dots so far wait in memory. A product with a scale is exact, so
// fma() rounds as a sum would; with one scale after the other none is infinite unless the product
// is.
template <class V, class I, uint32_t kHalf>
[[gnu::always_inline]] inline void score_group(const Int8ScoreTile& task, uint32_t group,
                                               uint32_t first, uint32_t heads, V key_scale,
                                               float* dots) {
  const Int8Query q = task.q;
  const uint32_t groups = task.dims / 32;
  const typename I::template HeldCodes<kHalf> keys(task.keys + uint64_t{group} * 512);
  uint64_t at = uint64_t{first} * groups + group;
  for (uint32_t h = 0; h < heads; ++h, at += groups) {
    keys.add_dot(q.codes + at * 32, q.offsets[at], q.scales[at], key_scale, dots + h * 16);
  }
}

template <class V, class I>
void score_tile_int8(const Int8ScoreTile& task, float* out) {
  constexpr uint32_t kHeads = 32;  // at a time: 2 KiB of dots
  alignas(64) float dots[kHeads * 16];
  V score = V::zero();
  for (uint32_t first = 0; first < task.heads; first += kHeads) {
    const uint32_t heads = task.heads - first < kHeads ? task.heads - first : kHeads;
    for (uint32_t h = 0; h < heads; ++h) V::zero().store(dots + h * 16);
    for (uint32_t g = 0; g < task.dims / 32; ++g) {
      const V key_scale = V::load_e8m0(task.key_scales + uint64_t{g} * 16);
      score_group<V, I, 0>(task, g, first, heads, key_scale, dots);
      if constexpr (I::kHalves == 2) score_group<V, I, 1>(task, g, first, heads, key_scale, dots);
    }
    for (uint32_t h = 0; h < heads; ++h) {
      const V dot = max(V::zero(), V::load(dots + h * 16));
      score = fma(V::set(task.head_weights[first + h]), dot, score);
    }
  }
  score.store(out);
}

// Levelled tiles: the sums of eight heads stay in registers while all dimensions pass by.
template <class V, class I, uint32_t kTiles>
[[gnu::always_inline]] inline void score_level_tiles(const LevelScore& task, float* out) {
  V score[kTiles];
#pragma GCC unroll 2
  for (uint32_t t = 0; t < kTiles; ++t) score[t] = V::zero();
  // Not all at once: a CPU waits for a dozen lines or so.
  const uint64_t part = task.tile_bytes * kLevelHeads / task.heads + 1;
  const uint8_t* q = task.q.codes;
  for (uint32_t first = 0; first < task.heads; first += kLevelHeads) {
#pragma GCC unroll 2
    for (uint32_t t = 0; t < kTiles; ++t) {
      internal::fetch(task.ahead[t] + first / kLevelHeads * part, part);
    }
    typename I::Acc dot[kLevelHeads][kTiles];
#pragma GCC unroll 8
    for (uint32_t h = 0; h < kLevelHeads; ++h) {
#pragma GCC unroll 2
      for (uint32_t t = 0; t < kTiles; ++t) dot[h][t] = I::load(task.tiles[t].start);
    }
    for (uint32_t d = 0; d < task.dims; d += 4, q += kLevelHeads * 4) {
      typename I::Piece piece[kTiles];
#pragma GCC unroll 2
      for (uint32_t t = 0; t < kTiles; ++t) {
        piece[t] = I::load_piece(task.tiles[t].codes + uint64_t{d} * 16);
      }
#pragma GCC unroll 8
      for (uint32_t h = 0; h < kLevelHeads; ++h) I::template add<kTiles>(dot[h], q + h * 4, piece);
    }
#pragma GCC unroll 8
    for (uint32_t h = 0; h < kLevelHeads; ++h) {
      const V factor = V::set(task.q.factors[first + h]);
#pragma GCC unroll 2
      for (uint32_t t = 0; t < kTiles; ++t) {
        score[t] = fma(factor, max(V::zero(), I::to_float(dot[h][t])), score[t]);
      }
    }
  }
#pragma GCC unroll 2
  for (uint32_t t = 0; t < kTiles; ++t) {
    (score[t] * V::load(task.tiles[t].scales)).store(out + t * 16);
  }
}

template <class V, class I>
void score_level(const LevelScore& task, float* out) {
  static_assert(kLevelTiles == 2);
  if (task.count == 2) {
    score_level_tiles<V, I, 2>(task, out);
  } else {
    score_level_tiles<V, I, 1>(task, out);
  }
}

}  // namespace thimble::kernels::generic
