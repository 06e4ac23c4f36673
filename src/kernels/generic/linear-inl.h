// Linear layers: float32 rows against weight rows decoded exactly, 16 lanes over the inputs.
//
// Two routes with the same arithmetic. Few rows of x: weights are decoded in registers. Many: a
// tile of weights is decoded once to scratch and met by all rows of x, in the blocks of columns of
// the canonical order; the sum of the blocks so far (16 lanes an output) waits in scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/internal/table_entries.h"
#include "numeric/e8m0.h"

namespace thimble::kernels::generic {

// --- Weight rows: 16 columns from a multiple of 16 on, or the n that are left. scale(k) is what
// the 32 columns from k on share.

struct NoScale {};

template <class V>
struct F32Row {
  const std::byte* codes;
  F32Row(const WeightView& w, uint32_t row) : codes(w.codes + uint64_t{row} * w.cols * 4) {}
  [[gnu::always_inline]] NoScale scale(uint32_t) const { return {}; }
  [[gnu::always_inline]] V at(uint32_t k, NoScale) const {
    return V::load_f32(codes + uint64_t{k} * 4);
  }
  [[gnu::always_inline]] V part(uint32_t k, uint32_t n) const {
    return V::load_f32(codes + uint64_t{k} * 4, n);
  }
};

template <class V>
struct BF16Row {
  const std::byte* codes;
  BF16Row(const WeightView& w, uint32_t row) : codes(w.codes + uint64_t{row} * w.cols * 2) {}
  [[gnu::always_inline]] NoScale scale(uint32_t) const { return {}; }
  [[gnu::always_inline]] V at(uint32_t k, NoScale) const {
    return V::load_bf16(codes + uint64_t{k} * 2);
  }
  [[gnu::always_inline]] V part(uint32_t k, uint32_t n) const {
    return V::load_bf16(codes + uint64_t{k} * 2, n);
  }
};

// cols is a multiple of 32 in the scaled formats: nothing is ever left.
template <class V>
struct Fp8Row {
  const std::byte* codes;
  const std::byte* scales;
  Fp8Row(const WeightView& w, uint32_t row)
      : codes(w.codes + uint64_t{row} * w.cols),
        scales(w.scales + uint64_t{(w.block_row + row) / 32} * (w.cols / 32)) {}
  [[gnu::always_inline]] V scale(uint32_t k) const {
    return V::set(numeric::e8m0_to_float(static_cast<uint8_t>(scales[k / 32])));
  }
  [[gnu::always_inline]] V at(uint32_t k, V scale) const { return V::load_e4m3(codes + k) * scale; }
  [[gnu::always_inline]] V part(uint32_t, uint32_t) const { return V::zero(); }
};

template <class V>
struct Fp4Row {
  const std::byte* codes;
  const std::byte* scales;
  Fp4Row(const WeightView& w, uint32_t row)
      : codes(w.codes + uint64_t{row} * (w.cols / 2)),
        scales(w.scales + uint64_t{row} * (w.cols / 32)) {}
  [[gnu::always_inline]] V scale(uint32_t k) const {
    return V::set(numeric::e8m0_to_float(static_cast<uint8_t>(scales[k / 32])));
  }
  [[gnu::always_inline]] V at(uint32_t k, V scale) const {
    return V::load_e2m1(codes + k / 2) * scale;
  }
  [[gnu::always_inline]] V part(uint32_t, uint32_t) const { return V::zero(); }
};

// What Row::scale() gives.
template <class Row>
using ScaleOf = decltype(std::declval<Row>().scale(0));

// --- Register tiles.

template <class V, uint32_t kOutputs>
[[gnu::always_inline]] inline void store_sums(const V (&acc)[kOutputs], float* y) {
  if constexpr (kOutputs == 4) {
    store_sums4(acc[0], acc[1], acc[2], acc[3], y);
  } else {
    for (uint32_t o = 0; o < kOutputs; ++o) y[o] = sum(acc[o]);
  }
}

template <class V, class Row, uint32_t kRows, uint32_t kOutputs>
[[gnu::always_inline]] inline void direct_step(V (&acc)[kRows][kOutputs], Rows<const float> x,
                                               const Row (&rows)[kOutputs],
                                               const ScaleOf<Row> (&scales)[kOutputs], uint32_t k) {
  V w[kOutputs];
#pragma GCC unroll 8
  for (uint32_t o = 0; o < kOutputs; ++o) w[o] = rows[o].at(k, scales[o]);
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    const V v = V::load(x.row(r) + k);
#pragma GCC unroll 8
    for (uint32_t o = 0; o < kOutputs; ++o) acc[r][o] = fma(v, w[o], acc[r][o]);
  }
}

// Adds columns [begin, end) to the lanes; begin a multiple of 32.
template <class V, class Row, uint32_t kRows, uint32_t kOutputs>
[[gnu::always_inline]] inline void direct_block(V (&acc)[kRows][kOutputs], Rows<const float> x,
                                                const Row (&rows)[kOutputs], uint32_t begin,
                                                uint32_t end) {
  uint32_t k = begin;
  ScaleOf<Row> scales[kOutputs];
  for (; k + 32 <= end; k += 32) {
#pragma GCC unroll 8
    for (uint32_t o = 0; o < kOutputs; ++o) scales[o] = rows[o].scale(k);
    direct_step(acc, x, rows, scales, k);
    direct_step(acc, x, rows, scales, k + 16);
  }
  if (k + 16 <= end) {
    for (uint32_t o = 0; o < kOutputs; ++o) scales[o] = rows[o].scale(k);
    direct_step(acc, x, rows, scales, k);
    k += 16;
  }
  if (k < end) {
    for (uint32_t r = 0; r < kRows; ++r) {
      const V v = V::load(x.row(r) + k, end - k);
      for (uint32_t o = 0; o < kOutputs; ++o) {
        acc[r][o] = fma(v, rows[o].part(k, end - k), acc[r][o]);
      }
    }
  }
}

// kRows rows of x against outputs [begin, begin + kOutputs), decoding in registers. Blocks of
// columns start their lanes at zero and join the sum of the blocks before them.
template <class V, class Row, uint32_t kRows, uint32_t kOutputs, uint32_t... kIndex>
[[gnu::always_inline]] inline void direct_tile(const WeightView& weight, uint32_t begin,
                                               Rows<const float> x, Rows<float> y,
                                               std::integer_sequence<uint32_t, kIndex...>) {
  const Row rows[kOutputs] = {Row(weight, begin + kIndex)...};
  V total[kRows]
         [kOutputs];  // set by the first block; zeros here only for compilers that cannot see it
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t o = 0; o < kOutputs; ++o) total[r][o] = V::zero();
  }
  uint32_t k = 0;
  do {
    V acc[kRows][kOutputs];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (uint32_t o = 0; o < kOutputs; ++o) acc[r][o] = V::zero();
    }
    const uint32_t end = weight.cols - k < kLinearDepth ? weight.cols : k + kLinearDepth;
    direct_block(acc, x, rows, k, end);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (uint32_t o = 0; o < kOutputs; ++o) {
        total[r][o] = k == 0 ? acc[r][o] : total[r][o] + acc[r][o];
      }
    }
    k = end;
  } while (k < weight.cols);
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) store_sums(total[r], y.row(r) + begin);
}

template <class V, class Row, uint32_t kRows>
inline void direct_rows(const WeightView& weight, uint32_t begin, uint32_t end, Rows<const float> x,
                        Rows<float> y) {
  constexpr uint32_t kOutputs = kRows == 1 ? 4 : V::Tiles::kTileOutputs;
  uint32_t o = begin;
  for (; o + kOutputs <= end; o += kOutputs) {
    direct_tile<V, Row, kRows, kOutputs>(weight, o, x, y,
                                         std::make_integer_sequence<uint32_t, kOutputs>());
  }
  for (; o < end; ++o) {
    direct_tile<V, Row, kRows, 1>(weight, o, x, y, std::make_integer_sequence<uint32_t, 1>());
  }
}

// --- Tiles of float32 weights.

// What a slice of the inputs does with the partial sums: 16 lanes for each (row, output).
struct Slice {
  float* partial;           // [rows, outputs, 16], or null when the slice is the whole
  uint64_t partial_stride;  // floats from one row to the next
  bool first;
  bool last;

  [[gnu::always_inline]] float* at(uint64_t row, uint64_t output) const {
    return partial + row * partial_stride + output * 16;
  }
  // The same for the rows and outputs from these on.
  [[gnu::always_inline]] Slice from(uint64_t row, uint64_t output) const {
    return {partial == nullptr ? nullptr : at(row, output), partial_stride, first, last};
  }
};

// y[r][o] = the lanes of acc[r][o] added up, four at a time where either side has fours.
template <class V, uint32_t kRows, uint32_t kOutputs>
[[gnu::always_inline]] inline void store_tile(const V (&acc)[kRows][kOutputs], Rows<float> y) {
  if constexpr (kOutputs != 4 && kRows % 4 == 0) {
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; r += 4) {
#pragma GCC unroll 8
      for (uint32_t o = 0; o < kOutputs; ++o) {
        float sums[4];
        store_sums4(acc[r][o], acc[r + 1][o], acc[r + 2][o], acc[r + 3][o], sums);
        for (uint32_t i = 0; i < 4; ++i) y.row(r + i)[o] = sums[i];
      }
    }
  } else {
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) store_sums(acc[r], y.row(r));
  }
}

// y[r][o] = x[r] . w[o] over k columns; w rows are zero up to a multiple of 16.
template <class V, uint32_t kRows, uint32_t kOutputs>
[[gnu::always_inline]] inline void dot_tile(Rows<const float> x, Rows<const float> w, uint32_t k,
                                            Slice slice, Rows<float> y) {
  V acc[kRows][kOutputs];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (uint32_t o = 0; o < kOutputs; ++o) acc[r][o] = V::zero();
  }
  uint32_t i = 0;
  for (; i + 16 <= k; i += 16) {
    V b[kOutputs];
#pragma GCC unroll 8
    for (uint32_t o = 0; o < kOutputs; ++o) b[o] = V::load(w.row(o) + i);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const V a = held(V::load(x.row(r) + i));
#pragma GCC unroll 8
      for (uint32_t o = 0; o < kOutputs; ++o) acc[r][o] = fma(a, b[o], acc[r][o]);
    }
  }
  if (i < k) {
    for (uint32_t r = 0; r < kRows; ++r) {
      const V a = V::load(x.row(r) + i, k - i);
      for (uint32_t o = 0; o < kOutputs; ++o) {
        acc[r][o] = fma(a, V::load(w.row(o) + i), acc[r][o]);
      }
    }
  }
  if (!slice.first) {
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (uint32_t o = 0; o < kOutputs; ++o) {
        acc[r][o] = V::load(slice.at(r, o)) + acc[r][o];
      }
    }
  }
  if (slice.last) return store_tile(acc, y);
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (uint32_t o = 0; o < kOutputs; ++o) acc[r][o].store(slice.at(r, o));
  }
}

template <class V, uint32_t kOutputs>
inline void dot_rows(Rows<const float> x, Rows<const float> w, uint32_t k, const Slice& slice,
                     Rows<float> y) {
  uint64_t r = 0;
  for (; r + V::Tiles::kTileRows <= x.rows; r += V::Tiles::kTileRows) {
    dot_tile<V, V::Tiles::kTileRows, kOutputs>(x.slice(r, V::Tiles::kTileRows), w, k,
                                               slice.from(r, 0), y.slice(r, V::Tiles::kTileRows));
  }
  for (; r < x.rows; ++r) {
    dot_tile<V, 1, kOutputs>(x.slice(r, 1), w, k, slice.from(r, 0), y.slice(r, 1));
  }
}

// All rows of x against all rows of w.
template <class V>
inline void dot_block(Rows<const float> x, Rows<const float> w, uint32_t k, const Slice& slice,
                      Rows<float> y) {
  uint64_t o = 0;
  for (; o + V::Tiles::kTileOutputs <= w.rows; o += V::Tiles::kTileOutputs) {
    dot_rows<V, V::Tiles::kTileOutputs>(x, w.slice(o, V::Tiles::kTileOutputs), k, slice.from(0, o),
                                        y.columns(o, V::Tiles::kTileOutputs));
  }
  for (; o < w.rows; ++o) {
    dot_rows<V, 1>(x, w.slice(o, 1), k, slice.from(0, o), y.columns(o, 1));
  }
}

// Columns [begin, end) of a weight row; begin a multiple of 32.
template <class V, class Row>
inline void decode_columns(const Row& row, uint32_t begin, uint32_t end, float* out) {
  uint32_t k = begin;
  for (; k + 32 <= end; k += 32) {
    const ScaleOf<Row> scale = row.scale(k);
    row.at(k, scale).store(out + (k - begin));
    row.at(k + 16, scale).store(out + (k - begin) + 16);
  }
  if (k + 16 <= end) {
    row.at(k, row.scale(k)).store(out + (k - begin));
    k += 16;
  }
  if (k < end) row.part(k, end - k).store(out + (k - begin), end - k);
}

// Columns [k, k + depth) of the weight rows from `first` on, as float32: where they lie, or decoded
// to scratch and with zeros up to a multiple of 16.
template <class V, class Row>
inline Rows<const float> decoded_tile(const WeightView& weight, uint32_t first, uint32_t outputs,
                                      uint32_t k, uint32_t depth, float* scratch) {
  if (std::is_same_v<Row, F32Row<V>> && depth % 16 == 0) {
    const std::byte* const at = weight.codes + (uint64_t{first} * weight.cols + k) * sizeof(float);
    return {reinterpret_cast<const float*>(at), outputs, depth, weight.cols};
  }
  const uint32_t padded = (depth + 15) / 16 * 16;
  const Rows<float> tile(scratch, outputs, depth, kLinearStride);
  for (uint32_t i = 0; i < outputs; ++i) {
    if (padded != depth) V::zero().store(tile.row(i) + padded - 16);
    decode_columns<V>(Row(weight, first + i), k, k + depth, tile.row(i));
  }
  return tile;
}

template <class V, class Row>
inline void tiled_rows(const WeightView& weight, uint32_t begin, uint32_t end, Rows<const float> x,
                       Rows<float> y, float* scratch) {
  float* partial = scratch + kLinearOutputs * kLinearStride;
  for (uint32_t o = begin; o < end; o += kLinearOutputs) {
    const uint32_t outputs = end - o < kLinearOutputs ? end - o : kLinearOutputs;
    for (uint32_t k = 0; k < weight.cols; k += kLinearDepth) {
      const uint32_t depth = weight.cols - k < kLinearDepth ? weight.cols - k : kLinearDepth;
      const Rows<const float> tile = decoded_tile<V, Row>(weight, o, outputs, k, depth, scratch);
      const Slice slice{partial, uint64_t{kLinearOutputs} * 16, k == 0, k + depth == weight.cols};
      dot_block<V>(x.columns(k, depth), tile, depth, slice, y.columns(o, outputs));
    }
  }
}

// Two register tiles of rows decode their weights faster twice than once by way of scratch.
template <class V, class Row>
inline void linear_rows(const WeightView& weight, uint32_t begin, uint32_t end, Rows<const float> x,
                        Rows<float> y, float* scratch) {
  constexpr uint32_t kRows = V::Tiles::kTileRows;
  if (x.rows > 2 * kRows) return tiled_rows<V, Row>(weight, begin, end, x, y, scratch);
  uint64_t r = 0;
  for (; r + kRows <= x.rows; r += kRows) {
    direct_rows<V, Row, kRows>(weight, begin, end, x.slice(r, kRows), y.slice(r, kRows));
  }
  const Rows<const float> rest = x.slice(r, x.rows - r);
  const Rows<float> out = y.slice(r, x.rows - r);
  if (rest.rows == 1) direct_rows<V, Row, 1>(weight, begin, end, rest, out);
  if (rest.rows == 2) direct_rows<V, Row, 2>(weight, begin, end, rest, out);
  if constexpr (kRows > 3) {
    if (rest.rows == 3) direct_rows<V, Row, 3>(weight, begin, end, rest, out);
  }
}

template <class V>
void linear(const WeightView& weight, uint32_t begin, uint32_t end, Rows<const float> x,
            Rows<float> y, float* scratch) {
  switch (weight.format) {
    case WeightFormat::kF32:
      return linear_rows<V, F32Row<V>>(weight, begin, end, x, y, scratch);
    case WeightFormat::kBF16:
      return linear_rows<V, BF16Row<V>>(weight, begin, end, x, y, scratch);
    case WeightFormat::kFp8Block32:
      return linear_rows<V, Fp8Row<V>>(weight, begin, end, x, y, scratch);
    case WeightFormat::kFp4Group32:
      return linear_rows<V, Fp4Row<V>>(weight, begin, end, x, y, scratch);
  }
}

template <class V>
void decode_weight(const WeightView& weight, uint32_t row, uint32_t begin, uint32_t end,
                   float* out) {
  switch (weight.format) {
    case WeightFormat::kF32:
      return decode_columns<V>(F32Row<V>(weight, row), begin, end, out);
    case WeightFormat::kBF16:
      return decode_columns<V>(BF16Row<V>(weight, row), begin, end, out);
    case WeightFormat::kFp8Block32:
      return decode_columns<V>(Fp8Row<V>(weight, row), begin, end, out);
    case WeightFormat::kFp4Group32:
      return decode_columns<V>(Fp4Row<V>(weight, row), begin, end, out);
  }
}

}  // namespace thimble::kernels::generic
