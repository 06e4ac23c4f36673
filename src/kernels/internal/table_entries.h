// The pieces of the operations that each instruction set provides. Single-threaded; the files
// beside ops.h cut the work, check shapes and call them.
//
// Entries differ between tables in speed only: the same bits come out, NaN payloads aside. Where an
// entry writes n values it writes exactly n; buffers may have any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kernels/ops.h"
#include "kernels/paged_rows.h"
#include "kernels/view.h"

namespace thimble::kernels {

// Scratch of one linear call, in floats: a decoded weight tile, then partial sums.
inline constexpr uint32_t kLinearOutputs = 8;  // outputs decoded at a time
inline constexpr uint32_t kLinearDepth = 512;  // columns decoded at a time; the canonical block
inline constexpr uint32_t kLinearRows = 64;    // rows of x in one call, at most
// Rows of the weight tile do not begin a power of two apart: they would share cache sets.
inline constexpr uint64_t kLinearStride = kLinearDepth + 16;
inline constexpr uint64_t kLinearScratch =
    kLinearOutputs * (kLinearStride + uint64_t{kLinearRows} * 16);

inline constexpr uint32_t kHcCopiesMax = 8;

// Some heads of one query against rows decoded to float32.
struct AttendHeads {
  const float* q = nullptr;     // [heads, dims]
  float* out = nullptr;         // [heads, dims]
  const float* sink = nullptr;  // [heads]
  const float* rows = nullptr;  // [count, row_stride], columns past dims zero
  float* scores = nullptr;      // [heads, score_stride], scratch
  uint64_t row_stride = 0;      // a multiple of 16
  uint64_t score_stride = 0;    // above count
  uint32_t heads = 0;
  uint32_t dims = 0;
  uint32_t count = 0;
  float scale = 0;
};

// All heads of one query against one tile of index keys decoded to float32.
struct ScoreTile {
  const float* q = nullptr;             // [heads, dims]
  const float* head_weights = nullptr;  // [heads]
  const float* keys = nullptr;          // [dims, 16]
  uint32_t heads = 0;
  uint32_t dims = 0;
};

// The heads of one query as int8: doubled E2M1 codes, -12 to 12, in groups of 32 dimensions. Scores
// over MXFP4 keys are then exact in int32 within a group; the bits are those of ScoreTile.
struct Int8Query {
  const int8_t* codes = nullptr;     // [heads, dims]; null: the query is not MXFP4
  const float* scales = nullptr;     // [heads, groups]: a quarter of the scale of the codes' values
  const int32_t* offsets = nullptr;  // [heads, groups]: -12 times the sum of the group's codes
};
struct Int8ScoreTile {
  Int8Query q;
  const float* head_weights = nullptr;    // [heads]
  const std::byte* keys = nullptr;        // [dims / 4, 16, 4] as expand_tile() gives them
  const std::byte* key_scales = nullptr;  // [groups, 16] E8M0
  uint32_t heads = 0;
  uint32_t dims = 0;
};

// The same query with the scales of a head levelled: what a group's scale is above the head's least
// is shifted into its codes. Entries whose scales lie as near are levelled too, and such a tile is
// one chain of integers a head, without a rounding: scales, which are powers of two, wait for the
// end. Same bits again.
inline constexpr uint32_t kLevelShift = 3;    // at most: doubled codes times 8 stay below 128
inline constexpr uint32_t kLevelGroups = 56;  // at most: then a head's dot is below 2^24
inline constexpr uint32_t kLevelHeads = 8;    // side by side
inline constexpr uint32_t kLevelTiles = 2;    // at a time
struct LevelQuery {
  const uint8_t* codes = nullptr;  // [blocks of 8 heads, dims / 4, 8, 4], 128 larger; null: not so
  const float* factors = nullptr;  // [blocks of 8 heads, 8]: weight times scale, 0 past the heads
  uint8_t low = 0;                 // E8M0: between these lies an entry's least scale where
  uint8_t high = 0;                // nothing under- or overflows
};
struct LevelTile {
  std::byte* codes = nullptr;  // [dims / 4, 16, 4] int8
  int32_t* start = nullptr;    // [16]: -128 times the sum of an entry's codes
  float* scales = nullptr;     // [16]
};
struct LevelScore {
  LevelQuery q;
  LevelTile tiles[kLevelTiles];
  const std::byte* ahead[kLevelTiles] = {};  // tiles as cached, asked for meanwhile
  uint64_t tile_bytes = 0;
  uint32_t count = 0;  // of tiles
  uint32_t heads = 0;
  uint32_t dims = 0;
};

// Rows of activations as int8, in groups of 32 that share a scale. What a group has once lies side
// by side for all rows: they meet a group together.
struct Int8Rows {
  const int8_t* codes = nullptr;       // [rows, cols], -127 to 127
  const float* half_scales = nullptr;  // [groups, rows]: half the value of one code
  const int32_t* offsets = nullptr;    // [groups, rows]: -12 times the sum of the group's codes
  uint64_t rows = 0;
  uint32_t cols = 0;

  uint32_t groups() const { return cols / 32; }
};

// Rows of activations side by side in tiles of a table's own size, [cols, rows of the tile] each,
// as tile_rows lays them; one row is itself.
struct FloatTiles {
  const float* data = nullptr;
  uint64_t rows = 0;
  uint32_t cols = 0;
};

// Of FP8 products: groups of a block that are decoded at a time (16 KiB), and blocks that are run
// side by side.
inline constexpr uint32_t kFp8Groups = 8;
inline constexpr uint32_t kFp8Blocks = 8;

// Bytes of scratch that packed_fp4 and packed_fp8 need.
constexpr uint64_t packed_scratch_bytes(uint32_t cols, uint64_t rows) {
  const uint64_t expanded = uint64_t{cols} * 16;                            // FP4 codes of a block
  const uint64_t decoded = (kFp8Groups * 32 + kFp8Blocks * rows) * 16 * 4;  // FP8 codes, and sums
  return expanded > decoded ? expanded : decoded;
}

struct Table {
  const char* name;

  // y[i][o] for outputs o in [begin, end). x: at most kLinearRows rows.
  void (*linear)(const WeightView& weight, uint32_t begin, uint32_t end, Rows<const float> x,
                 Rows<float> y, float* scratch);
  // One row of activations to int8: codes [cols]; half_scales and offsets [cols / 32], `stride`
  // apart.
  void (*quantize_row)(const float* x, uint32_t cols, int8_t* codes, float* half_scales,
                       int32_t* offsets, uint64_t stride);
  // `count` packed blocks (kernels/packed.h) against all rows of x: y[i][o] for o in [0, outputs).
  void (*packed_fp4)(const std::byte* blocks, uint64_t count, uint32_t outputs, const Int8Rows& x,
                     Rows<float> y, std::byte* scratch);
  void (*packed_fp8)(const std::byte* blocks, uint64_t count, uint32_t outputs, const FloatTiles& x,
                     Rows<float> y, std::byte* scratch);
  // out: [rows, cols], for FloatTiles.
  void (*tile_rows)(Rows<const float> x, float* out);
  // Columns [begin, end) of one row; begin a multiple of 32.
  void (*decode_weight)(const WeightView& weight, uint32_t row, uint32_t begin, uint32_t end,
                        float* out);
  void (*decode_row)(RowFormat format, const std::byte* row, uint32_t dims, float* out);
  void (*decode_tile)(TileFormat format, const std::byte* tile, uint32_t dims, float* out);
  // E4M3 codes [n] with one E8M0 scale per 32.
  void (*decode_fp8)(const std::byte* codes, const std::byte* scales, uint32_t n, float* out);

  float (*sum_of_squares)(const float* x, uint64_t n);
  // y = weight * (x * factor)
  void (*scale_row)(const float* x, const std::byte* weight_bf16, float factor, uint64_t n,
                    float* y);
  void (*add_row)(const float* x, uint64_t n, float* y);
  void (*exp)(const float* x, uint64_t n, float* y);
  void (*router_scores)(const float* logits, uint64_t n, float* scores);
  void (*swiglu_row)(const float* gate, const float* up, float limit, float row_weight, uint64_t n,
                     float* out);
  void (*pool_pair)(const float* value0, const float* gate0, const float* value1,
                    const float* gate1, uint64_t n, float* out);

  void (*hc_collapse)(const float* stream, const float* pre, uint32_t copies, uint64_t hidden,
                      float* x);
  void (*hc_post)(float* stream, const float* y, const float* post, const float* comb,
                  uint32_t copies, uint64_t hidden);
  // The gate of one stream copy and its key; then copy += gate * value.
  float (*engram_gate)(const float* copy, const float* key, const std::byte* q_weight_bf16,
                       const std::byte* k_weight_bf16, uint64_t hidden, float eps);
  void (*engram_add)(const float* value, float gate, uint64_t hidden, float* copy);

  void (*attend)(const AttendHeads& task);
  uint32_t attend_heads;  // heads of a task come best in multiples of so many
  // out: [16]
  void (*score_tile)(const ScoreTile& task, float* out);
  // The codes of an MXFP4 tile, doubled and 12 larger: [dims / 4, 16 entries, 4 dimensions].
  void (*expand_tile)(const std::byte* tile, uint32_t dims, std::byte* out);
  void (*score_tile_int8)(const Int8ScoreTile& task, float* out);
  // Null where sums of 16 bits are the fastest. level_tile: false where a tile cannot be levelled
  // for the query; out then holds anything.
  bool (*level_tile)(const std::byte* tile, uint32_t dims, const LevelQuery& q, LevelTile out);
  void (*score_level)(const LevelScore& task, float* out);  // out: [count, 16]
};

// What kernels() begins with: the one called `wanted`, else the first.
const Table* choose_table(std::span<const Table* const> tables,
                          const std::optional<std::string>& wanted);

// Null where this build or this CPU has no such table.
const Table* scalar_table();
namespace avx2 {
const Table* table();
}
const Table* avx512_table();
const Table* avx512_vnni_table();

}  // namespace thimble::kernels
