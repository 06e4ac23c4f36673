// Hyper-connections (mHC): coefficients of a token, and the sums they weigh. Backbone
// spec 4.3, 4.4.
#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "kernels/internal/parallel.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace thimble::kernels {
namespace {

constexpr uint32_t kCoefficientsMax = (2 + kHcCopiesMax) * kHcCopiesMax;

void normalise_columns(float* comb, uint32_t n, float eps) {
  for (uint32_t j = 0; j < n; ++j) {
    float total = 0;
    for (uint32_t i = 0; i < n; ++i) total += comb[i * n + j];
    for (uint32_t i = 0; i < n; ++i) comb[i * n + j] /= total + eps;
  }
}

void normalise_rows(float* comb, uint32_t n, float eps) {
  for (uint32_t i = 0; i < n; ++i) {
    float total = 0;
    for (uint32_t j = 0; j < n; ++j) total += comb[i * n + j];
    for (uint32_t j = 0; j < n; ++j) comb[i * n + j] /= total + eps;
  }
}

// comb holds the logits and receives the coefficients: row softmax, then Sinkhorn.
void sinkhorn(const Table& table, const HcWeights& weights, float* comb) {
  const uint32_t n = weights.copies;
  for (uint32_t i = 0; i < n; ++i) {
    float top = comb[i * n];
    for (uint32_t j = 1; j < n; ++j) top = top > comb[i * n + j] ? top : comb[i * n + j];
    for (uint32_t j = 0; j < n; ++j) comb[i * n + j] -= top;
  }
  table.exp(comb, n * n, comb);
  for (uint32_t i = 0; i < n; ++i) {
    float total = 0;
    for (uint32_t j = 0; j < n; ++j) total += comb[i * n + j];
    for (uint32_t j = 0; j < n; ++j) comb[i * n + j] = comb[i * n + j] / total + weights.hc_eps;
  }
  normalise_columns(comb, n, weights.hc_eps);
  for (uint32_t round = 1; round < weights.sinkhorn_iters; ++round) {
    normalise_rows(comb, n, weights.hc_eps);
    normalise_columns(comb, n, weights.hc_eps);
  }
}

// Products fn . u of one token to pre, post and comb; r = rsqrt(mean(u^2) + eps).
void coefficients(const Table& table, const HcWeights& weights, const float* products, float r,
                  float* pre, float* post, float* comb) {
  const uint32_t n = weights.copies;
  float z[kCoefficientsMax];
  for (uint32_t k = 0; k < (2 + n) * n; ++k) {
    const float scale = weights.scale[k < n ? 0 : k < 2 * n ? 1 : 2];
    z[k] = products[k] * r * scale + weights.base[k];
  }
  float exps[2 * kHcCopiesMax];
  for (uint32_t k = 0; k < 2 * n; ++k) exps[k] = -z[k];
  table.exp(exps, 2 * n, exps);
  for (uint32_t i = 0; i < n; ++i) {
    pre[i] = 1.0f / (1.0f + exps[i]) + weights.hc_eps;
    post[i] = 2.0f * (1.0f / (1.0f + exps[n + i]));
  }
  for (uint32_t k = 0; k < n * n; ++k) comb[k] = z[2 * n + k];
  sinkhorn(table, weights, comb);
}

WeightView fn_view(const HcWeights& weights, uint64_t cols) {
  const uint32_t n = weights.copies;
  return {WeightFormat::kF32, reinterpret_cast<const std::byte*>(weights.fn), nullptr, (2 + n) * n,
          static_cast<uint32_t>(cols)};
}

// The coefficients of rows whose products are known.
void mix_row(const Table& table, const HcWeights& weights, Rows<const float> stream,
             Rows<const float> products, const HcMix& out, uint64_t i) {
  const float mean =
      table.sum_of_squares(stream.row(i), stream.cols) / static_cast<float>(stream.cols);
  const float r = 1.0f / std::sqrt(mean + weights.norm_eps);
  coefficients(table, weights, products.row(i), r, out.pre.row(i), out.post.row(i),
               out.comb.row(i));
}

// Rows that are turned while they are in a CPU's own cache; 16 of the released model's are 1.3 MB.
constexpr uint64_t kTurnRows = 16;

HcMix slice(const HcMix& mix, uint64_t first, uint64_t rows) {
  return {mix.pre.slice(first, rows), mix.post.slice(first, rows), mix.comb.slice(first, rows)};
}

HcTurn slice(const HcTurn& turn, uint64_t first, uint64_t rows) {
  HcTurn out = turn;
  out.stream = turn.stream.slice(first, rows);
  if (turn.y.data != nullptr) {
    out.y = turn.y.slice(first, rows);
    out.spread = slice(turn.spread, first, rows);
  }
  out.mix = slice(turn.mix, first, rows);
  out.pre = turn.pre.slice(first, rows);
  out.x = turn.x.slice(first, rows);
  return out;
}

// On one thread. products: [kTurnRows, (2 + copies) * copies]
void turn_rows(const Table& table, const HcTurn& turn, float* products, float* scratch) {
  const uint32_t copies = turn.weights.copies;
  const uint64_t hidden = turn.x.cols;
  const WeightView fn = fn_view(turn.weights, turn.stream.cols);
  for (uint64_t i = 0; turn.y.data != nullptr && i < turn.stream.rows; ++i) {
    table.hc_post(turn.stream.row(i), turn.y.row(i), turn.spread.post.row(i),
                  turn.spread.comb.row(i), copies, hidden);
  }
  const Rows<float> sums(products, turn.stream.rows, fn.rows);
  table.linear(fn, 0, fn.rows, turn.stream, sums, scratch);
  for (uint64_t i = 0; i < turn.stream.rows; ++i) {
    mix_row(table, turn.weights, turn.stream, sums, turn.mix, i);
    table.hc_collapse(turn.stream.row(i), turn.pre.row(i), copies, hidden, turn.x.row(i));
  }
}

}  // namespace

void hc_mix(const HcWeights& weights, Rows<const float> stream, HcMix out, Context context) {
  const uint32_t n = weights.copies;
  CHECK_GE(n, 1u);
  CHECK_LE(n, kHcCopiesMax);
  CHECK_EQ(out.pre.cols, uint64_t{n});
  CHECK_EQ(out.post.cols, uint64_t{n});
  CHECK_EQ(out.comb.cols, uint64_t{n} * n);
  const Table& table = kernels();
  const Workspace::Mark mark(context.workspace);
  const WeightView fn = fn_view(weights, stream.cols);
  const Rows<float> products(context.workspace.take<float>(stream.rows * fn.rows).data(),
                             stream.rows, fn.rows);
  linear(fn, stream, products, context);
  // A token's Sinkhorn rounds cost about as much as a thousand additions.
  internal::for_rows(context, stream.rows, stream.cols + 4096,
                     [&](uint64_t i) { mix_row(table, weights, stream, products, out, i); });
}

void hc_turn(const HcTurn& turn, Context context) {
  const uint64_t rows = turn.stream.rows;
  const uint64_t tasks = internal::divide_up(rows, kTurnRows);
  if (tasks < 2 * context.pool.size()) {  // too few to keep every thread at work
    if (turn.y.data != nullptr) hc_post(turn.stream, turn.y, turn.spread, context);
    hc_mix(turn.weights, turn.stream, turn.mix, context);
    return hc_collapse(turn.stream, turn.pre, turn.x, context);
  }
  const uint64_t copies = turn.weights.copies;
  CHECK(copies >= 1 && copies <= kHcCopiesMax);
  CHECK_EQ(turn.stream.cols, copies * turn.x.cols);
  CHECK(turn.x.rows == rows && turn.pre.rows == rows && turn.mix.pre.rows == rows);
  CHECK(turn.y.data == nullptr || (turn.y.rows == rows && turn.y.cols == turn.x.cols));
  const Table& table = kernels();
  const Workspace::Mark mark(context.workspace);
  const uint64_t products = kTurnRows * (2 + copies) * copies;
  const uint64_t each = internal::divide_up(products + kLinearScratch, 16) * 16;
  const std::span<float> scratch = context.workspace.take<float>(each * context.pool.size());
  context.pool.parallel_for(tasks, [&](uint64_t task, uint32_t worker) {
    const uint64_t first = task * kTurnRows;
    float* const mine = &scratch[worker * each];
    turn_rows(table, slice(turn, first, std::min(kTurnRows, rows - first)), mine + kLinearScratch,
              mine);
  });
}

void hc_collapse(Rows<const float> stream, Rows<const float> pre, Rows<float> x, Context context) {
  const uint32_t copies = static_cast<uint32_t>(pre.cols);
  CHECK_EQ(stream.rows, x.rows);
  CHECK_EQ(stream.rows, pre.rows);
  CHECK_EQ(stream.cols, copies * x.cols);
  const Table& table = kernels();
  internal::for_rows(context, stream.rows, stream.cols, [&](uint64_t i) {
    table.hc_collapse(stream.row(i), pre.row(i), copies, x.cols, x.row(i));
  });
}

void hc_post(Rows<float> stream, Rows<const float> y, const HcMix& mix, Context context) {
  const uint32_t copies = static_cast<uint32_t>(mix.post.cols);
  CHECK_LE(copies, kHcCopiesMax);
  CHECK_EQ(stream.rows, y.rows);
  CHECK_EQ(stream.cols, copies * y.cols);
  CHECK_EQ(mix.comb.cols, uint64_t{copies} * copies);
  const Table& table = kernels();
  internal::for_rows(context, stream.rows, stream.cols * copies, [&](uint64_t i) {
    table.hc_post(stream.row(i), y.row(i), mix.post.row(i), mix.comb.row(i), copies, y.cols);
  });
}

}  // namespace thimble::kernels
