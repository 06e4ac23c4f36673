// The operations the model is made of, over views. What the model sees of the kernels.
//
// Promises of every operation:
//  - Row purity: an output row is a pure function of its own inputs, bit for bit: the number of
//    rows in the call, the row's index, the thread count and the instruction set do not matter.
//    (Which NaN a NaN is may differ.)
//  - No allocation but from the Workspace, no threads but the pool's.
//  - One canonical order of arithmetic: sums over an input dimension run in 16 virtual lanes (lane
//    j takes elements j, j+16, ... by fused multiply-add) and close with the tree
//    (((l0+l8)+(l4+l12))+((l2+l10)+(l6+l14))) + (the same of the odd lanes); in linear() the lanes
//    start anew every 512 columns and the blocks' lanes are added in order, which keeps the error
//    of long rows near that of short ones (at hidden 5120 it decides how many cached codes flip);
//    sums over a list run in list order; exp is exp_f32() of generic/math-inl.h. The scalar table
//    is the definition; every other table equals it.
// Error against exact arithmetic is stated beside each operation, u = 2^-24 being half a last
// place; the tests beside each .cc hold it against double arithmetic on random data.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/paged_rows.h"
#include "kernels/view.h"
#include "kernels/workspace.h"

namespace thimble::kernels {

using base::ThreadPool;

// What an operation runs with.
struct Context {
  ThreadPool& pool;
  Workspace& workspace;
};

// y[i][o] = sum_k x[i][k] * W[o][k], W decoded exactly. x: [n, cols], y: [n, rows].
// Error: (min(cols, 512) / 16 + cols / 512 + 5) u times sum_k |x W|.
// Where the weight asks for Arithmetic::kFast and is FP4 or FP8, groups of 32 inputs g replace the
// lanes: y = sum over g, in order, by fma, of scale_g * dot_g.
//  - FP4: x is rounded to int8 in the group, q = round(x * 127 / amax), and dot_g is exact in
//  int32.
//    Error: sum_g amax_g / 254 * sum_k |W|, and (cols / 32 + 36) u times sum_k |x W|. Groups below
//    1e-30 count as zero; one that holds no number makes its row's outputs NaN.
//  - FP8: dot_g is one chain of fma in input order. Error: (cols / 32 + 36) u times sum_k |x W|.
//    A NaN code makes its group of 32 inputs NaN for the 16 outputs of its block (streamed: for
//    those of them that the view has).
// FP4's scale_g times amax_g / 254 must be a float32, else the output may be NaN.
void linear(const WeightView& weight, Rows<const float> x, Rows<float> y, Context context);

// Several products that share no rows, run as one parallel job (the experts of a layer).
struct LinearJob {
  WeightView weight;
  Rows<const float> x;
  Rows<float> y;
};
void linear_batch(std::span<const LinearJob> jobs, Context context);

// y[i] = weight * x[i] * rsqrt(mean(x[i]^2) + eps). weight: [cols] BF16. y may be x.
// Error: (cols / 32 + 8) u, relative.
void rms_norm(Rows<const float> x, const std::byte* weight_bf16, float eps, Rows<float> y,
              Context context);

// Rotates adjacent pairs of the last `2 * pairs` columns of each vector: (a, b) ->
// (a cos - b sin, a sin + b cos); kBackward uses the negative angle. x: [n, vectors * dims] holds
// `vectors` vectors a row; cos, sin: [n, pairs], one row per row of x. Backbone spec 3.5.
// Error: 2 u (|a| + |b|).
enum class Rotation { kForward, kBackward };
void rope(Rows<float> x, uint32_t vectors, Rows<const float> cos, Rows<const float> sin,
          Rotation rotation, Context context);

// --- Hyper-connections (mHC), backbone spec 4.3 and 4.4. copies = hc_mult, "stream" is
// [n, copies * hidden] with copy 0 first.

struct HcWeights {
  const float* fn = nullptr;     // [(2 + copies) * copies, copies * hidden]: pre, post, comb rows
  const float* scale = nullptr;  // [3]
  const float* base = nullptr;   // [(2 + copies) * copies]
  uint32_t copies = 0;
  uint32_t sinkhorn_iters = 0;
  float hc_eps = 0;
  float norm_eps = 0;
};

struct HcMix {
  Rows<float> pre;   // [n, copies]
  Rows<float> post;  // [n, copies]
  Rows<float> comb;  // [n, copies * copies], [source][destination]
};

// The coefficients of each token, from the stream before its sublayer; at most eight copies.
// Error: absolute, 2e-6 for pre, 4e-6 for post and comb.
void hc_mix(const HcWeights& weights, Rows<const float> stream, HcMix out, Context context);

// x[i] = sum_c pre[i][c] * stream[i][c]. x: [n, hidden]. Error: (copies + 1) u times the sum of
// magnitudes; of hc_post, one more.
void hc_collapse(Rows<const float> stream, Rows<const float> pre, Rows<float> x, Context context);

// stream[i][j] = post[i][j] * y[i] + sum_c comb[i][c][j] * stream[i][c], in place.
void hc_post(Rows<float> stream, Rows<const float> y, const HcMix& mix, Context context);

// All of it between two sublayers, in one pass over the stream: hc_post() of the branch before,
// then the next one's hc_mix() and hc_collapse(). The same bits as the three calls.
struct HcTurn {
  Rows<float> stream;
  Rows<const float> y;  // [n, hidden]; without data nothing is spread
  HcMix spread;         // what spreads it
  HcWeights weights;
  HcMix mix;  // out
  Rows<const float> pre;
  Rows<float> x;  // out
};
void hc_turn(const HcTurn& turn, Context context);

// --- Attention, backbone spec 5.4.

// One query position: all heads against its window rows, then its selected entries, in list order.
struct AttendJob {
  const float* q = nullptr;  // [heads, dims], rotated
  float* out = nullptr;      // [heads, dims]
  RingRows window;
  uint64_t window_begin = 0;  // positions [window_begin, window_end)
  uint64_t window_end = 0;
  PagedRows main;                     // ignored when selected is empty
  std::span<const int32_t> selected;  // ascending entries; ends at the first -1
  // [pairs] of the query's position, which turn its output back: keys are values here, and carry
  // their rotation. Not read where there are no pairs.
  const float* cos = nullptr;
  const float* sin = nullptr;
};

struct AttendShape {
  uint32_t heads = 0;
  uint32_t dims = 0;
  float scale = 0;              // head_dim^-0.5
  const float* sink = nullptr;  // [heads], raw logits of the denominator
  uint64_t pairs = 0;           // the last 2 * pairs dimensions are rotated, as by rope()
};

// Without rotation: out[h] = sum_i p_i row_i / (sum_i p_i + e^(sink - M)) with a_i = scale * q[h] .
// row_i, M = max(-1e30, max_i a_i), p_i = e^(a_i - M). No rows give zero. Error: (2 (dims / 16 + 8)
// S + 2 rows + 8) u times sum_i |p_i row_i| / sum_i p_i, where S = scale * max_i sum_d |q row_i|.
void attend(std::span<const AttendJob> jobs, const AttendShape& shape, Context context);

// --- Indexer, backbone spec 6.3 to 6.5.

struct SelectJob {
  const float* q = nullptr;             // [heads, dims], rotated and (unless nokvq) MXFP4-rounded
  const float* head_weights = nullptr;  // [heads], scaled
  PagedTiles keys;
  uint64_t visible = 0;                     // entries this query may see
  const uint8_t* allowed_blocks = nullptr;  // [blocks] 0/1, or null: every visible entry
  uint8_t* candidate_blocks = nullptr;      // out 0/1 a block of the visible, or null
  int32_t* selected = nullptr;              // out [topk], ascending, -1 padded
  float* scores = nullptr;                  // out [visible] raw scores, or null: not wanted
};

// Scores that index_select() keeps at a time, unless one query needs more.
inline constexpr uint64_t kScoreFloats = uint64_t{16} << 20;

struct SelectShape {
  uint32_t heads = 0;
  uint32_t dims = 0;
  uint32_t topk = 0;
  uint32_t block_size = 0;        // candidate blocks; 0: this model has none
  uint32_t candidate_blocks = 0;  // how many are kept
};

// score[j] = sum_h w[h] * max(0, q[h] . k[j]); within a group of 32 dimensions the dot is exact for
// MXFP4 operands, groups add in order, heads add in order. selected = the min(topk, visible)
// largest, the lower entry winning ties, NaN last. A candidate job also keeps the best blocks, the
// newest always, none whose best score is -inf. Keys are not read where nothing depends on them.
// Error of a score: (dims / 32 + heads + 2) u times sum_h |w[h]| sum_d |q k| for MXFP4 operands,
// 32 u more for others.
void index_select(std::span<const SelectJob> jobs, const SelectShape& shape, Context context);

// The selection rules alone, on given scores; none allocates. Maxima are those of every `size`
// scores, the last ones maybe of fewer, as integers of the same order; NaN counts as -inf.
void score_maxima(std::span<const float> scores, uint32_t size, uint32_t* maxima);
// selected: [topk], as above.
void select_topk(std::span<const float> scores, std::span<const uint32_t> maxima, uint32_t size,
                 uint32_t topk, int32_t* selected);
// The same among the scores of allowed blocks.
void select_allowed(std::span<const float> scores, const uint8_t* allowed_blocks,
                    uint32_t block_size, uint32_t topk, int32_t* selected);
// blocks: 0/1 for each maximum.
void select_blocks(std::span<const uint32_t> maxima, uint32_t keep, uint8_t* blocks);

// --- Mixture of experts, backbone spec 8.

// Top `topk` of sqrt(softplus(logits)) + bias, best biased score first, lower expert winning ties,
// NaN last; weights = unbiased scores / (their sum + 1e-20) * route_scale. logits: [n, experts],
// bias: [experts], ids, weights: [n, topk]. scores [n, experts] receives the unbiased scores; its
// data may be null. Error: 4 last places of a score; (topk + 10) u, relative, of a weight.
void route(Rows<const float> logits, const float* bias, float route_scale, Rows<int32_t> ids,
           Rows<float> weights, Rows<float> scores);

// out = silu(min(gate, limit)) * clamp(up, -limit, limit) * row_weight[i] (1 when null). out may be
// gate. Error: 8 u, relative.
void swiglu(Rows<const float> gate, Rows<const float> up, float limit, const float* row_weight,
            Rows<float> out, Context context);

// y[i] += x[i], all columns.
void add_rows(Rows<const float> x, Rows<float> y, Context context);

// --- Compressor, backbone spec 6.1: per-channel softmax over the two tokens of a group.
// out[c] = softmax(gate0[c], gate1[c]) . (value0[c], value1[c]).
// Error: (8 + |gate0 - gate1|) u times the weighted magnitudes.
void pool_pair(const float* value0, const float* gate0, const float* value1, const float* gate1,
               uint32_t dims, float* out);

// --- Engram, engram spec 2.7.

// Decodes table rows: out[i] = the concatenation of rows ids[i][0..lookups). codes: E4M3
// [table_rows, head_dim], scales: E8M0 [table_rows, head_dim / 32]. out: [n, lookups * head_dim].
// Exact.
struct EngramTable {
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  uint64_t rows = 0;
  uint32_t head_dim = 0;
};
void engram_gather(const EngramTable& table, Rows<const int64_t> ids, Rows<float> out,
                   Context context);

// stream[i][c] += gate * value[i]; gate = sigmoid(copysign(sqrt(max(|a|, 1e-6)), a)), a the scaled
// dot of the normalised stream copy and key. kv: [n, (copies + 1) * hidden], keys first, value
// last. alive: [n], 0 closes the gate (image positions); null: all open. gates [n, copies] may be
// null. Error of a gate: 1e-5 at the released width.
void engram_apply(Rows<float> stream, Rows<const float> kv, const std::byte* q_weight_bf16,
                  const std::byte* k_weight_bf16, uint32_t copies, float eps, const uint8_t* alive,
                  Rows<float> gates, Context context);

// --- Cached rows: encode and decode. `format` decides; kFloat copies. Decoding is exact, encoding
// rounds as numeric/ says.

void write_row(RowFormat format, std::span<const float> values, std::byte* row);
void read_row(RowFormat format, const std::byte* row, std::span<float> values);
// Entry `slot` (0..15) of a tile; the other entries are left as they are.
void write_tile_entry(TileFormat format, std::span<const float> values, std::byte* tile,
                      uint32_t slot);
void read_tile_entry(TileFormat format, const std::byte* tile, uint32_t slot,
                     std::span<float> values);
// Rounds x to what an MXFP4 cache would give back (groups of 32), in place.
void round_mxfp4(std::span<float> x);

// Decodes one weight row. Reference, tests and packing; not for hot loops.
void decode_weight_row(const WeightView& weight, uint32_t row, std::span<float> out);

}  // namespace thimble::kernels
