// Hyper-connections (mHC): coefficients of a token, and the sums they weigh. Backbone
// spec 4.3, 4.4.
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
  const uint32_t count = (2 + n) * n;
  Rows<float> products(context.workspace.take<float>(stream.rows * count).data(), stream.rows,
                       count);
  const WeightView fn{WeightFormat::kF32, reinterpret_cast<const std::byte*>(weights.fn), nullptr,
                      count, static_cast<uint32_t>(stream.cols)};
  linear(fn, stream, products, context);
  const float width = static_cast<float>(stream.cols);
  // A token's Sinkhorn rounds cost about as much as a thousand additions.
  internal::for_rows(context, stream.rows, stream.cols + 4096, [&](uint64_t i) {
    const float mean = table.sum_of_squares(stream.row(i), stream.cols) / width;
    const float r = 1.0f / std::sqrt(mean + weights.norm_eps);
    coefficients(table, weights, products.row(i), r, out.pre.row(i), out.post.row(i),
                 out.comb.row(i));
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
