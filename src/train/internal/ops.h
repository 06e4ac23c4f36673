// Differentiable operations of the model that libtorch lacks or does slowly: each is a custom
// autograd function over the loops of kernels.h, for float and double.
//
// Rows come first in every shape. Index arrays are plain vectors shared with the layout of the
// batch; they must outlive the backward pass, hence shared pointers. Any number of threads may
// build graphs at once, each its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/internal/torch.h"

namespace thimble::train::internal {

using Indices = std::shared_ptr<const std::vector<int32_t>>;

// How large products are computed. kBf16 rounds both operands (sums stay float32 inside a product)
// and is for speed only; double tensors ignore it.
enum class Products { kFull, kBf16 };

// The published roundings that the cached rows go through.
enum class Rounding { kNone, kFp8, kMxfp4, kKvFp4 };

// x [n, in] times w [out, in], transposed.
Tensor linear(const Tensor& x, const Tensor& w, Products products);

// Straight-through: the value is rounded, the gradient passes unchanged. REQUIRES: the row length
// is a multiple of the rule's group.
Tensor round_through(const Tensor& x, Rounding rounding);

// x [rows, width] by weight [width].
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

// The last `2 * cos.size(1)` values of each head rotated. x [rows, heads, dims]; cos [rows, pairs].
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin);

// Rows of h [rows, copies, width] weighted by pre [rows, copies], then normalised.
Tensor collapse(const Tensor& h, const Tensor& pre, const Tensor& weight, double eps);

// mix [rows, copies * (2 + copies)] as made by hyper_mix().
Tensor spread(const Tensor& h, const Tensor& y, const Tensor& mix);

struct HyperWeights {
  Tensor fn;     // [copies * (2 + copies), copies * width]
  Tensor base;   // [copies * (2 + copies)]
  Tensor scale;  // [3]: pre, post, comb
};
Tensor hyper_mix(const Tensor& h, const HyperWeights& weights, double norm_eps, double eps,
                 int64_t iterations);

// A window per row and, where `selected` is given, entries of `main`.
struct AttendInputs {
  Tensor q;       // [rows, heads, dims] not rotated yet
  Tensor window;  // [rows, dims]
  Tensor main;    // [entries, dims]; undefined: window only
  Tensor sink;    // [heads]
  Tensor cos, sin;
  Indices window_first;  // [rows]
  Indices selected;      // [rows, slots]
};
// [rows, heads, dims]. `mass` (may be null) becomes [rows, slots], without gradient.
Tensor attend(const AttendInputs& in, Tensor* mass);

// Index scores at selected slots [rows, slots]. q [rows, heads, dims], weights [rows, heads], keys
// [entries, dims].
Tensor rescore(const Tensor& q, const Tensor& weights, const Tensor& keys, const Indices& selected);

struct ExpertWeights {
  Tensor w1, w3;  // [experts, inner, width]
  Tensor w2;      // [experts, width, inner]
};
// Sum over each row's experts of weight * down(silu(min(gate, limit)) * clamp(up)). ids [rows *
// per_row], route [rows, per_row].
Tensor experts(const Tensor& x, const Tensor& route, const Indices& ids,
               const ExpertWeights& weights, double limit, Products products);

// Sum over rows with labels >= 0 of -log softmax(logits)[label], times `scale`.
Tensor cross_entropy(const Tensor& logits, const Indices& labels, double scale);

// One number into every row's stream: sigmoid of the signed square root (engram spec 2.7).
Tensor engram_gate(const Tensor& score);

}  // namespace thimble::train::internal
