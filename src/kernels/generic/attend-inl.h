// Attention of some heads of one query over a list of rows (backbone spec 5.4): scores, a two-pass
// softmax in list order, then the weighted sum of the same rows in list order.
//
// Rows come in blocks that stay in the second-level cache while all heads pass over them. Blocks
// cut loops, not sums: the running output of a head waits in `out` between blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/generic/linear-inl.h"
#include "kernels/generic/math-inl.h"
#include "kernels/generic/rows-inl.h"
#include "kernels/internal/table_entries.h"

namespace thimble::kernels::generic {

inline constexpr uint32_t kAttendRows = 64;  // rows in a block

// kHeads heads against a block of rows. The heads stay in the first-level cache while the rows
// stream by, so the tile is as tall as registers allow: it is what a row is worth.
template <class V, uint32_t kHeads>
inline void attend_score_rows(Rows<const float> q, Rows<const float> rows, uint32_t dims,
                              Rows<float> scores) {
  const Slice whole{nullptr, 0, true, true};
  uint32_t i = 0;
  for (; i + V::Tiles::kScoreRows <= rows.rows; i += V::Tiles::kScoreRows) {
    dot_tile<V, kHeads, V::Tiles::kScoreRows>(q, rows.slice(i, V::Tiles::kScoreRows), dims, whole,
                                              scores.columns(i, V::Tiles::kScoreRows));
  }
  for (; i < rows.rows; ++i) {
    dot_tile<V, kHeads, 1>(q, rows.slice(i, 1), dims, whole, scores.columns(i, 1));
  }
}

// Stage 1: scores[h][i] = q[h] . rows[i].
template <class V>
inline void attend_scores(const AttendHeads& task) {
  constexpr uint32_t kHeads = V::Tiles::kScoreHeads;
  const Rows<const float> q(task.q, task.heads, task.dims);
  const Rows<const float> rows(task.rows, task.count, task.dims, task.row_stride);
  const Rows<float> scores(task.scores, task.heads, task.count, task.score_stride);
  for (uint32_t begin = 0; begin < task.count; begin += kAttendRows) {
    const uint32_t n = task.count - begin < kAttendRows ? task.count - begin : kAttendRows;
    const Rows<const float> block = rows.slice(begin, n);
    const Rows<float> out = scores.columns(begin, n);
    uint32_t head = 0;
    for (; head + kHeads <= task.heads; head += kHeads) {
      attend_score_rows<V, kHeads>(q.slice(head, kHeads), block, task.dims,
                                   out.slice(head, kHeads));
    }
    for (; head < task.heads; ++head) {
      attend_score_rows<V, 1>(q.slice(head, 1), block, task.dims, out.slice(head, 1));
    }
  }
}

// Stage 2, one head: scores become exp(scale * score - max). Returns the maximum.
template <class V>
inline float attend_exp(float* scores, uint32_t count, float scale) {
  V top = V::set(-1e30f);
  for (uint32_t i = 0; i < count; i += 16) {
    const uint32_t m = lanes_left(count, i);
    const V a = V::load(scores + i, m) * V::set(scale);
    a.store(scores + i, m);
    // Lanes past the end would count as zeros.
    top = m == 16 ? max(top, a) : top;
  }
  float lanes[16];
  top.store(lanes);
  float highest = -1e30f;
  for (float lane : lanes) highest = highest > lane ? highest : lane;
  for (uint32_t i = count / 16 * 16; i < count; ++i) {
    highest = highest > scores[i] ? highest : scores[i];
  }
  for (uint32_t i = 0; i < count; i += 16) {
    const uint32_t m = lanes_left(count, i);
    exp_f32(V::load(scores + i, m) - V::set(highest)).store(scores + i, m);
  }
  return highest;
}

// Stage 2, a group of heads: then their denominators in list order, the sink last, kept behind the
// scores. The heads go side by side because each sum is one long chain of additions.
template <class V, uint32_t kHeads>
inline void attend_softmax(const AttendHeads& task, uint32_t head) {
  float* scores[kHeads];
  float highest[kHeads];
  float total[kHeads] = {};
  for (uint32_t h = 0; h < kHeads; ++h) {
    scores[h] = task.scores + (head + h) * task.score_stride;
    highest[h] = attend_exp<V>(scores[h], task.count, task.scale);
  }
  for (uint32_t i = 0; i < task.count; ++i) {
#pragma GCC unroll 8
    for (uint32_t h = 0; h < kHeads; ++h) total[h] += scores[h][i];
  }
  for (uint32_t h = 0; h < kHeads; ++h) {
    float sink[16];
    exp_f32(V::set(task.sink[head + h] - highest[h])).store(sink);
    scores[h][task.count] = total[h] + sink[0];
  }
}

// Stage 3: out[h][d] += sum_i p[h][i] * rows[i][d] over one block, for a tile of heads and
// dimensions.
template <class V, uint32_t kHeads, uint32_t kVectors>
[[gnu::always_inline]] inline void attend_values(const AttendHeads& task, uint32_t head,
                                                 uint32_t dim, uint32_t begin, uint32_t end) {
  const uint32_t m = lanes_left(task.dims, dim + 16 * (kVectors - 1));
  V acc[kHeads][kVectors];
#pragma GCC unroll 8
  for (uint32_t h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (uint32_t v = 0; v < kVectors; ++v) {
      const float* out = task.out + uint64_t{head + h} * task.dims + dim + v * 16;
      acc[h][v] = begin == 0 ? V::zero() : V::load(out, v + 1 < kVectors ? 16 : m);
    }
  }
  const float* p = task.scores + uint64_t{head} * task.score_stride;
  for (uint32_t i = begin; i < end; ++i) {
    const float* row = task.rows + i * task.row_stride + dim;
    V values[kVectors];
#pragma GCC unroll 8
    for (uint32_t v = 0; v < kVectors; ++v) values[v] = V::load(row + v * 16);
#pragma GCC unroll 8
    for (uint32_t h = 0; h < kHeads; ++h) {
      const V weight = V::set(p[uint64_t{h} * task.score_stride + i]);
#pragma GCC unroll 8
      for (uint32_t v = 0; v < kVectors; ++v) acc[h][v] = fma(weight, values[v], acc[h][v]);
    }
  }
#pragma GCC unroll 8
  for (uint32_t h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (uint32_t v = 0; v < kVectors; ++v) {
      float* out = task.out + uint64_t{head + h} * task.dims + dim + v * 16;
      acc[h][v].store(out, v + 1 < kVectors ? 16 : m);
    }
  }
}

template <class V, uint32_t kHeads>
inline void attend_value_rows(const AttendHeads& task, uint32_t head, uint32_t begin,
                              uint32_t end) {
  uint32_t dim = 0;
  for (; dim + 16 * V::Tiles::kTileOutputs <= task.dims; dim += 16 * V::Tiles::kTileOutputs) {
    attend_values<V, kHeads, V::Tiles::kTileOutputs>(task, head, dim, begin, end);
  }
  for (; dim < task.dims; dim += 16) attend_values<V, kHeads, 1>(task, head, dim, begin, end);
}

// Stage 4, one head.
template <class V>
inline void attend_divide(const AttendHeads& task, uint32_t head) {
  const V divisor = V::set(task.scores[head * task.score_stride + task.count]);
  float* out = task.out + uint64_t{head} * task.dims;
  for (uint32_t d = 0; d < task.dims; d += 16) {
    const uint32_t m = lanes_left(task.dims, d);
    (V::load(out + d, m) / divisor).store(out + d, m);
  }
}

template <class V>
void attend(const AttendHeads& task) {
  constexpr uint32_t kHeads = V::Tiles::kTileRows;
  attend_scores<V>(task);
  uint32_t head = 0;
  for (; head + kHeads <= task.heads; head += kHeads) attend_softmax<V, kHeads>(task, head);
  for (; head < task.heads; ++head) attend_softmax<V, 1>(task, head);
  uint32_t begin = 0;
  do {
    const uint32_t end = task.count - begin < kAttendRows ? task.count : begin + kAttendRows;
    head = 0;
    for (; head + kHeads <= task.heads; head += kHeads) {
      attend_value_rows<V, kHeads>(task, head, begin, end);
    }
    for (; head < task.heads; ++head) attend_value_rows<V, 1>(task, head, begin, end);
    begin = end;
  } while (begin < task.count);
  for (head = 0; head < task.heads; ++head) attend_divide<V>(task, head);
}

}  // namespace thimble::kernels::generic
