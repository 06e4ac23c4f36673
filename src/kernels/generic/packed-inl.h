// Products with packed weights (kernels/packed.h): 16 outputs to a vector, one chain over the
// groups of 32 inputs for every (row, output).
//
// FP4: within a group the dot of int8 activations and doubled codes is exact in int32; groups are
// scaled and added in order. FP8: within a group one chain of fused multiply-adds in input order,
// from zero; groups as before. So the order is the same for one row and for many, whatever the
// tiles. `I` is the integer half of an instruction set (isa/int_*.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/internal/fetch.h"
#include "kernels/internal/table_entries.h"
#include "kernels/packed.h"
#include "numeric/e8m0.h"

namespace thimble::kernels::generic {

// --- Activations to int8: x / (amax / 127), to the nearest, halves to even.

inline constexpr float kInt8Max = 127;
inline constexpr float kAmaxMin = 1e-30F;  // groups smaller than that are zero
// 1.5 * 2^23: adding it leaves the nearest integer in a float's last bits.
inline constexpr float kRoundingShift = 12582912.0F;

template <class V>
[[gnu::always_inline]] inline float group_amax(const V& lo, const V& hi) {
  const V a = abs(lo);
  float lanes[16];
  keep_nan(a, max(a, abs(hi))).store(lanes);
  float amax = 0;
  for (const float lane : lanes) {
    if (!(lane <= amax)) amax = lane;  // a NaN stays
    if (amax != amax) break;
  }
  return amax;
}

template <class V>
[[gnu::always_inline]] inline int32_t store_codes(const V& x, const V& inverse, int8_t* codes) {
  float lanes[16];
  (x * inverse + V::set(kRoundingShift)).store(lanes);
  int32_t sum_of_codes = 0;
  for (int i = 0; i < 16; ++i) {
    int32_t bits;
    std::memcpy(&bits, &lanes[i], sizeof(bits));
    codes[i] = static_cast<int8_t>(bits & 0xFF);
    sum_of_codes += codes[i];
  }
  return sum_of_codes;
}

template <class V>
void quantize_row(const float* x, uint32_t cols, int8_t* codes, float* half_scales,
                  int32_t* offsets, uint64_t stride) {
  constexpr float kFloatMax = 3.4028234e38F;
  for (uint64_t g = 0; g < cols / kPackInputs; ++g, x += kPackInputs, codes += kPackInputs) {
    float& half_scale = half_scales[g * stride];
    int32_t& offset = offsets[g * stride];
    const V lo = V::load(x);
    const V hi = V::load(x + 16);
    const float amax = group_amax(lo, hi);
    if (amax >= kAmaxMin && amax <= kFloatMax) {
      const V inverse = V::set(kInt8Max / amax);
      const int32_t sum_of_codes =
          store_codes(lo, inverse, codes) + store_codes(hi, inverse, codes + 16);
      half_scale = amax * (0.5F / kInt8Max);
      offset = -12 * sum_of_codes;
    } else {  // nothing to speak of, or not a number any more
      std::memset(codes, 0, kPackInputs);
      half_scale = amax < kAmaxMin ? 0.0F : amax - amax;  // infinity and NaN give NaN
      offset = 0;
    }
  }
}

// Streams of weights are more than a CPU fetches ahead by itself. `bytes` that come this much later
// than those at `at`:
inline constexpr uint64_t kBytesAhead = 2048;
[[gnu::always_inline]] inline void fetch_ahead(const std::byte* at, uint64_t bytes) {
  internal::fetch(at + kBytesAhead, bytes);
}

// Where from the begin of a block the group lies that is wanted kAhead groups after `group`, if
// kBlocks of them are read side by side.
template <uint32_t kAhead, uint32_t kBlocks>
[[gnu::always_inline]] inline uint64_t group_ahead(uint32_t group, uint32_t groups,
                                                   uint64_t group_bytes, uint64_t block_bytes) {
  const uint64_t to = uint64_t{group} + kAhead;
  return to < groups ? to * group_bytes : kBlocks * block_bytes + (to - groups) * group_bytes;
}

// --- FP4.

// Expanded codes of a group: 8 pieces of 64 bytes, each code doubled and 12 larger, so unsigned.
inline constexpr uint32_t kExpandedBytes = 512;

template <class V, class I, uint32_t kRows, class Codes>
[[gnu::always_inline]] inline void fp4_group(const Codes& codes, const Int8Rows& x, uint64_t row,
                                             uint32_t group, V scale, V (&total)[kRows]) {
  const int8_t* at[kRows];
  typename I::Acc acc[kRows];
  const int32_t* const offsets = x.offsets + group * x.rows + row;
  const float* const half_scales = x.half_scales + group * x.rows + row;
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    at[r] = x.codes + (row + r) * x.cols + uint64_t{group} * kPackInputs;
    acc[r] = I::set(offsets[r]);
  }
  I::template dot<kRows>(codes, at, acc);
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    const V factor = scale * V::set(half_scales[r]);
    total[r] = fma(I::to_float(acc[r]), factor, total[r]);
  }
}

template <class V, uint32_t kRows>
[[gnu::always_inline]] inline void store_block(const V (&total)[kRows], Rows<float> y, uint64_t row,
                                               uint32_t output, uint32_t outputs) {
  for (uint32_t r = 0; r < kRows; ++r) {
    float* const out = y.row(row + r) + output;
    if (outputs == kPackOutputs) {
      total[r].store(out);
    } else {
      total[r].store(out, outputs);
    }
  }
}

// Rows [row, row + kRows) against one block, codes expanded in registers or beforehand.
template <class V, class I, uint32_t kRows, bool kExpanded>
inline void fp4_tile(const std::byte* codes, const std::byte* scales, const Int8Rows& x,
                     uint64_t row, Rows<float> y, uint32_t output, uint32_t outputs) {
  using Codes = std::conditional_t<kExpanded, typename I::ExpandedCodes, typename I::PackedCodes>;
  constexpr uint32_t kBytes = kExpanded ? kExpandedBytes : kExpandedBytes / 2;
  V total[kRows];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) total[r] = V::zero();
  const uint32_t groups = x.groups();
  for (uint32_t g = 0; g < groups; ++g) {
    if (!kExpanded && row == 0) fetch_ahead(codes + uint64_t{g} * kBytes, kBytes);
    const V scale = V::load_e8m0(scales + uint64_t{g} * kPackOutputs);
    fp4_group<V, I, kRows>(Codes{codes + uint64_t{g} * kBytes}, x, row, g, scale, total);
  }
  store_block(total, y, row, output, outputs);
}

template <class V, class I, bool kExpanded>
inline void fp4_rows(const std::byte* codes, const std::byte* scales, const Int8Rows& x,
                     Rows<float> y, uint32_t output, uint32_t outputs) {
  uint64_t r = 0;
  for (; r + I::kRows <= x.rows; r += I::kRows) {
    fp4_tile<V, I, I::kRows, kExpanded>(codes, scales, x, r, y, output, outputs);
  }
  if (r + 4 <= x.rows) {
    fp4_tile<V, I, 4, kExpanded>(codes, scales, x, r, y, output, outputs);
    r += 4;
  }
  if (r + 2 <= x.rows) {
    fp4_tile<V, I, 2, kExpanded>(codes, scales, x, r, y, output, outputs);
    r += 2;
  }
  if (r < x.rows) fp4_tile<V, I, 1, kExpanded>(codes, scales, x, r, y, output, outputs);
}

// One row: several blocks side by side, so that they share what is read of the row and their chains
// overlap.
template <class V, class I, uint32_t kBlocks>
inline void fp4_one_row(const std::byte* blocks, uint64_t block_bytes, const Int8Rows& x,
                        V (&total)[kBlocks]) {
  constexpr uint64_t kGroupBytes = kExpandedBytes / 2;
  const uint32_t groups = x.groups();
  const uint64_t codes_bytes = groups * kGroupBytes;
#pragma GCC unroll 8
  for (uint32_t b = 0; b < kBlocks; ++b) total[b] = V::zero();
  for (uint32_t g = 0; g < groups; ++g) {
    const uint64_t ahead = group_ahead<4, kBlocks>(g, groups, kGroupBytes, block_bytes);
    const uint64_t scales_ahead =
        codes_bytes + group_ahead<16, kBlocks>(g, groups, kPackOutputs, block_bytes);
    const int8_t* const at[1] = {x.codes + uint64_t{g} * kPackInputs};
    const typename I::Acc start = I::set(x.offsets[g]);
    const V half_scale = V::set(x.half_scales[g]);
#pragma GCC unroll 8
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const std::byte* const block = blocks + b * block_bytes;
      internal::fetch(block + ahead, kGroupBytes);
      if (g % 4 == 0) internal::fetch(block + scales_ahead, 1);  // a line has those of four groups
      typename I::Acc acc[1] = {start};
      const typename I::PackedCodes codes{block + g * kGroupBytes};
      I::template dot<1>(codes, at, acc);
      const V scale = V::load_e8m0(block + codes_bytes + uint64_t{g} * kPackOutputs);
      total[b] = fma(I::to_float(acc[0]), scale * half_scale, total[b]);
    }
  }
}

template <class V, class I>
void packed_fp4(const std::byte* blocks, uint64_t count, uint32_t outputs, const Int8Rows& x,
                Rows<float> y, std::byte* scratch) {
  const uint32_t groups = x.groups();
  const uint64_t block_bytes = numeric::pack_block_bytes(numeric::PackedFormat::kFp4, x.cols);
  for (uint64_t b = 0; b < count; ++b, blocks += block_bytes) {
    const auto output = static_cast<uint32_t>(b * kPackOutputs);
    const uint32_t here = outputs - output < kPackOutputs ? outputs - output : kPackOutputs;
    const std::byte* const scales = blocks + uint64_t{groups} * (kExpandedBytes / 2);
    if (x.rows == 1 && outputs - output >= 4 * kPackOutputs) {
      V total[4];
      fp4_one_row<V, I, 4>(blocks, block_bytes, x, total);
      for (uint32_t i = 0; i < 4; ++i) total[i].store(y.row(0) + output + i * kPackOutputs);
      b += 3;
      blocks += 3 * block_bytes;
      continue;
    }
    if (x.rows <= 2 * I::kRows) {
      fp4_rows<V, I, false>(blocks, scales, x, y, output, here);
      continue;
    }
    for (uint32_t g = 0; g < groups; ++g) {
      fetch_ahead(blocks + uint64_t{g} * (kExpandedBytes / 2), kExpandedBytes / 2);
      I::expand(blocks + uint64_t{g} * (kExpandedBytes / 2),
                scratch + uint64_t{g} * kExpandedBytes);
    }
    fp4_rows<V, I, true>(scratch, scales, x, y, output, here);
  }
}

// --- FP8. Codes are decoded as half floats 2^8 too small; a group's sum makes up for it (its scale
// times 2^8 might be no number).
// (Packing has made the scale of a group with a NaN a NaN.)

inline constexpr float kHalfFactor = 256;

// Codes as they are packed, or decoded to float32 beforehand: 16 outputs of input k, which is
// even, or of the odd one after it.
template <class V>
struct Fp8Codes {
  static constexpr uint64_t kGroupBytes = uint64_t{kPackInputs} * kPackOutputs;
  const std::byte* at;
  uint64_t block_bytes;
  template <uint32_t kAhead, uint32_t kBlocks>
  [[gnu::always_inline]] void fetch_group(uint32_t group, uint32_t groups) const {
    internal::fetch(at + group_ahead<kAhead, kBlocks>(group, groups, kGroupBytes, block_bytes),
                    kGroupBytes);
  }
  [[gnu::always_inline]] V even(uint32_t k) const {
    return V::load_e4m3_even(at + uint64_t{k} * kPackOutputs);
  }
  [[gnu::always_inline]] V odd(uint32_t k) const {
    return V::load_e4m3_odd(at + uint64_t{k} * kPackOutputs);
  }
};
template <class V>
struct F32Codes {
  const float* at;
  template <uint32_t kAhead, uint32_t kBlocks>
  [[gnu::always_inline]] void fetch_group(uint32_t, uint32_t) const {}
  [[gnu::always_inline]] V even(uint32_t k) const {
    return V::load(at + uint64_t{k} * kPackOutputs);
  }
  [[gnu::always_inline]] V odd(uint32_t k) const { return even(k + 1); }
};

// What is read below is read here and not before: with all of it at once there are more values than
// registers.
[[gnu::always_inline]] inline void keep_order() { asm volatile("" : : : "memory"); }

// Groups [begin, end) of kBlocks blocks against kRows rows. x: [inputs from group begin on, kRows];
// total: [kBlocks, kRows, 16], which the groups before have left. It stays in memory: registers are
// for the group.
template <class V, uint32_t kRows, uint32_t kBlocks, class Codes>
inline void fp8_tile(const Codes (&codes)[kBlocks], const std::byte* const (&scales)[kBlocks],
                     const float* x, uint32_t begin, uint32_t end, float* const (&total)[kBlocks]) {
  if (begin == 0) {
    for (float* const sums : total) std::memset(sums, 0, kRows * kPackOutputs * sizeof(float));
  }
  for (uint32_t g = begin; g < end; ++g) {
    V acc[kBlocks][kRows];
#pragma GCC unroll 16
    for (uint32_t b = 0; b < kBlocks; ++b) {
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) acc[b][r] = V::zero();
    }
    const uint32_t local = (g - begin) * kPackInputs;
#pragma GCC unroll 16
    for (uint32_t b = 0; b < kBlocks; ++b) {
      codes[b].template fetch_group<kBlocks == 1 ? 4 : 3, kBlocks>(g - begin, end - begin);
    }
#pragma GCC unroll 2
    for (uint32_t i = 0; i < kPackInputs; i += 2) {
      const float* const at = x + uint64_t{local + i} * kRows;
#pragma GCC unroll 16
      for (uint32_t b = 0; b < kBlocks; ++b) {
        const V w = codes[b].even(local + i);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < kRows; ++r) acc[b][r] = fma(V::set(at[r]), w, acc[b][r]);
      }
      keep_order();
#pragma GCC unroll 16
      for (uint32_t b = 0; b < kBlocks; ++b) {
        const V w = codes[b].odd(local + i);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < kRows; ++r) acc[b][r] = fma(V::set(at[kRows + r]), w, acc[b][r]);
      }
      keep_order();
    }
#pragma GCC unroll 16
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const float scale = numeric::e8m0_to_float(static_cast<uint8_t>(scales[b][g]));
      const V factor = V::set(scale);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        float* const sums = total[b] + r * kPackOutputs;
        fma(acc[b][r] * V::set(kHalfFactor), factor, V::load(sums)).store(sums);
      }
    }
  }
}

// tile(rows, first) with rows, at most kRows, as a constant.
template <uint32_t kRows, class Tile>
inline void one_tile(uint64_t rows, uint64_t first, Tile&& tile) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return one_tile<kRows - 1>(rows, first, tile);
  }
  tile(std::integral_constant<uint32_t, kRows>(), first);
}

// How rows are grouped: tiles of kRows, the last two of even size if they would not be full.
template <uint32_t kRows, class Tile>
inline void in_tiles(uint64_t rows, Tile&& tile) {
  uint64_t r = 0;
  for (; rows - r >= 2 * kRows || rows - r == kRows; r += kRows) {
    tile(std::integral_constant<uint32_t, kRows>(), r);
  }
  if (r == rows) return;
  const uint64_t half = rows - r > kRows ? (rows - r + 1) / 2 : rows - r;
  one_tile<kRows>(half, r, tile);
  if (r + half < rows) one_tile<kRows>(rows - r - half, r + half, tile);
}

// Whether codes are decoded beforehand: for one tile or two it does not pay.
template <class V>
inline bool decodes_first(uint64_t rows) {
  return rows > 2 * V::Tiles::kPackedRows;
}

// Groups that are multiplied at a time.
template <class V>
inline uint32_t fp8_step(uint64_t rows, uint32_t groups) {
  return decodes_first<V>(rows) ? kFp8Groups : groups;
}

// Rows side by side: x[i] of a tile's rows, then x[i + 1]; step by step, in each tile by tile, so
// that a step reads one piece of memory. out: [rows, cols] floats.
template <class V>
void tile_rows(Rows<const float> x, float* out) {
  const auto groups = static_cast<uint32_t>(x.cols / kPackInputs);
  const uint64_t step = uint64_t{fp8_step<V>(x.rows, groups)} * kPackInputs;
  for (uint64_t begin = 0; begin < x.cols; begin += step) {
    const uint64_t inputs = x.cols - begin < step ? x.cols - begin : step;
    in_tiles<V::Tiles::kPackedRows>(x.rows, [&](auto count, uint64_t row) {
      constexpr uint32_t kRows = decltype(count)::value;
      float* const tile = out + x.rows * begin + row * inputs;
      for (uint32_t r = 0; r < kRows; ++r) {
        const float* const from = x.row(row + r) + begin;
        for (uint64_t k = 0; k < inputs; ++k) tile[k * kRows + r] = from[k];
      }
    });
  }
}

// One row: several blocks side by side, so that their chains overlap.
template <class V, uint32_t kBlocks>
inline void fp8_one_row(const std::byte* blocks, uint64_t block_bytes, uint64_t codes_bytes,
                        uint32_t groups, const float* x, float* total) {
  Fp8Codes<V> codes[kBlocks];
  const std::byte* scales[kBlocks];
  float* totals[kBlocks];
  for (uint32_t b = 0; b < kBlocks; ++b) {
    codes[b] = {blocks + b * block_bytes, block_bytes};
    scales[b] = blocks + b * block_bytes + codes_bytes;
    internal::fetch(scales[b] + kBlocks * block_bytes, groups);
    totals[b] = total + b * kPackOutputs;
  }
  fp8_tile<V, 1, kBlocks>(codes, scales, x, 0, groups, totals);
}

// Few rows against one block, decoded as they go.
template <class V>
inline void fp8_few_rows(const std::byte* block, uint64_t codes_bytes, const FloatTiles& x,
                         float* total) {
  const std::byte* const scales[1] = {block + codes_bytes};
  in_tiles<V::Tiles::kPackedRows>(x.rows, [&](auto count, uint64_t row) {
    constexpr uint32_t kRows = decltype(count)::value;
    float* const totals[1] = {total + row * kPackOutputs};
    fp8_tile<V, kRows, 1>(
        {Fp8Codes<V>{block, numeric::pack_block_bytes(numeric::PackedFormat::kFp8, x.cols)}},
        scales, x.data + row * x.cols, 0, x.cols / kPackInputs, totals);
  });
}

// Groups [begin, end) of a block, decoded once for many rows.
template <class V>
inline void fp8_many_rows(const std::byte* block, uint64_t codes_bytes, const FloatTiles& x,
                          uint32_t begin, uint32_t end, float* decoded, float* total) {
  const std::byte* const scales[1] = {block + codes_bytes};
  const std::byte* const from = block + uint64_t{begin} * kPackInputs * kPackOutputs;
  const uint32_t inputs = (end - begin) * kPackInputs;
  fetch_ahead(from, uint64_t{inputs} * kPackOutputs);
  for (uint32_t k = 0; k < inputs; k += 2) {
    const Fp8Codes<V> codes{from, 0};
    codes.even(k).store(decoded + uint64_t{k} * kPackOutputs);
    codes.odd(k).store(decoded + uint64_t{k} * kPackOutputs + kPackOutputs);
  }
  in_tiles<V::Tiles::kPackedRows>(x.rows, [&](auto count, uint64_t row) {
    constexpr uint32_t kRows = decltype(count)::value;
    const float* const tile = x.data + x.rows * begin * kPackInputs + row * inputs;
    float* const totals[1] = {total + row * kPackOutputs};
    fp8_tile<V, kRows, 1>({F32Codes<V>{decoded}}, scales, tile, begin, end, totals);
  });
}

// Blocks [0, count), a few groups of all of them at a time: rows are more than caches hold near.
// total: [count, rows, 16]
template <class V>
inline void fp8_many_rows(const std::byte* blocks, uint64_t block_bytes, uint32_t count,
                          uint64_t codes_bytes, const FloatTiles& x, float* decoded, float* total) {
  const uint32_t groups = x.cols / kPackInputs;
  const uint32_t step = fp8_step<V>(x.rows, groups);
  for (uint32_t g = 0; g < groups; g += step) {
    const uint32_t end = groups - g < step ? groups : g + step;
    for (uint32_t b = 0; b < count; ++b) {
      fp8_many_rows<V>(blocks + b * block_bytes, codes_bytes, x, g, end, decoded,
                       total + b * x.rows * kPackOutputs);
    }
  }
}

// Blocks from the first on, as many as go side by side; their number.
template <class V>
inline uint32_t fp8_blocks(const std::byte* blocks, uint64_t count, const FloatTiles& x,
                           float* decoded, float* total) {
  const uint32_t groups = x.cols / kPackInputs;
  const uint64_t codes_bytes = uint64_t{x.cols} * kPackOutputs;
  const uint64_t block_bytes = numeric::pack_block_bytes(numeric::PackedFormat::kFp8, x.cols);
  if (decodes_first<V>(x.rows)) {
    const auto here = static_cast<uint32_t>(count < kFp8Blocks ? count : kFp8Blocks);
    fp8_many_rows<V>(blocks, block_bytes, here, codes_bytes, x, decoded, total);
    return here;
  }
  if (x.rows == 1 && count >= 4) {
    fp8_one_row<V, 4>(blocks, block_bytes, codes_bytes, groups, x.data, total);
    return 4;
  }
  fp8_few_rows<V>(blocks, codes_bytes, x, total);
  return 1;
}

template <class V>
void packed_fp8(const std::byte* blocks, uint64_t count, uint32_t outputs, const FloatTiles& x,
                Rows<float> y, std::byte* scratch) {
  const uint64_t block_bytes = numeric::pack_block_bytes(numeric::PackedFormat::kFp8, x.cols);
  float* const decoded = reinterpret_cast<float*>(scratch);
  float* const total = decoded + kFp8Groups * kPackInputs * kPackOutputs;
  for (uint64_t b = 0; b < count;) {
    const uint32_t done = fp8_blocks<V>(blocks + b * block_bytes, count - b, x, decoded, total);
    for (uint32_t i = 0; i < done; ++i, ++b) {
      const auto output = static_cast<uint32_t>(b * kPackOutputs);
      const uint32_t here = outputs - output < kPackOutputs ? outputs - output : kPackOutputs;
      for (uint64_t r = 0; r < x.rows; ++r) {
        std::memcpy(y.row(r) + output, total + (i * x.rows + r) * kPackOutputs,
                    here * sizeof(float));
      }
    }
  }
}

}  // namespace thimble::kernels::generic
