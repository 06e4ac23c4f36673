// Routed experts: rows sorted by expert, three products each, added back.
#include <numeric>

#include "base/check.h"
#include "train/internal/kernels.h"
#include "train/internal/ops.h"
#include "train/internal/products.h"

namespace thimble::train::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::tensor_list;

// (row, slot) pairs in order of expert, rows ascending inside. Each expert's rows may be filled up
// to a multiple of `unit` with pairs that do not exist (index `count`, row 0, weight 0): the BF16
// products are compiled for each shape they meet, and so meet few.
struct Sorted {
  Tensor pairs;                  // [pairs] indices into [rows * per_row], or that number
  Tensor rows;                   // [pairs]
  std::vector<int64_t> offsets;  // [experts + 1]
};

Sorted sort_by_expert(const std::vector<int32_t>& ids, int64_t per_row, int64_t experts,
                      int64_t unit) {
  Sorted out;
  out.offsets.assign(static_cast<size_t>(experts + 1), 0);
  for (const int32_t e : ids) ++out.offsets[static_cast<size_t>(e) + 1];
  for (int64_t& count : out.offsets) count = (count + unit - 1) / unit * unit;
  std::partial_sum(out.offsets.begin(), out.offsets.end(), out.offsets.begin());
  const auto count = static_cast<int64_t>(ids.size());
  out.pairs = at::full({out.offsets.back()}, count, at::kLong);
  out.rows = at::zeros({out.offsets.back()}, at::kLong);
  std::vector<int64_t> next(out.offsets.begin(), out.offsets.end() - 1);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = next[static_cast<size_t>(ids[static_cast<size_t>(i)])]++;
    out.pairs.data_ptr<int64_t>()[at] = i;
    out.rows.data_ptr<int64_t>()[at] = i / per_row;
  }
  return out;
}

// out[e's rows] = a[e's rows] * b[e] (transposed or not), in a's type.
void grouped(const Tensor& out, const Tensor& a, const Tensor& b, bool transposed,
             const std::vector<int64_t>& offsets) {
  for (int64_t e = 0; e < b.size(0); ++e) {
    const int64_t begin = offsets[static_cast<size_t>(e)];
    const int64_t count = offsets[static_cast<size_t>(e) + 1] - begin;
    if (count == 0) continue;
    Tensor to = out.narrow(0, begin, count);
    at::mm_out(to, a.narrow(0, begin, count), transposed ? b[e].t() : b[e]);
  }
}

// out[e] = a[e's rows]^T * b[e's rows]; zero where an expert has no rows.
Tensor grouped_outer(const Tensor& a, const Tensor& b, int64_t experts,
                     const std::vector<int64_t>& offsets) {
  Tensor out = at::zeros({experts, a.size(1), b.size(1)}, a.options());
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t begin = offsets[static_cast<size_t>(e)];
    const int64_t count = offsets[static_cast<size_t>(e) + 1] - begin;
    if (count == 0) continue;
    Tensor to = out[e];
    at::mm_out(to, a.narrow(0, begin, count).t(), b.narrow(0, begin, count));
  }
  return out;
}

// Runs one of the activation loops in the tensors' type.
template <class F>
void by_type(const Tensor& x, F f) {
  x.scalar_type() == at::kDouble ? f(double{}) : f(float{});
}

struct ExpertsFunction : Function<ExpertsFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& route,
                        const Tensor& w1, const Tensor& w3, const Tensor& w2, const Indices& ids,
                        double limit, int64_t products) {
    const auto how = static_cast<Products>(products);
    const bool narrow = how == Products::kBf16 && x.scalar_type() == at::kFloat;
    const Sorted sorted = sort_by_expert(*ids, route.size(1), w1.size(0), narrow ? 32 : 1);
    const Tensor rows = for_product(x, how).index_select(0, sorted.rows);
    const Tensor padded = at::cat({route.reshape({-1}), at::zeros({1}, route.options())});
    const Tensor weight = padded.index_select(0, sorted.pairs);
    const Tensor b1 = for_product(w1, how);
    const Tensor b3 = for_product(w3, how);
    const Tensor b2 = for_product(w2, how);
    Tensor g = at::empty({rows.size(0), w1.size(1)}, rows.options());
    Tensor u = at::empty_like(g);
    grouped(g, rows, b1, true, sorted.offsets);
    grouped(u, rows, b3, true, sorted.offsets);
    g = g.to(x.scalar_type());
    u = u.to(x.scalar_type());
    const Tensor act = at::empty_like(g);
    by_type(x, [&](auto zero) {
      using T = decltype(zero);
      activate_forward({g.size(0), g.size(1), limit}, g.data_ptr<T>(), u.data_ptr<T>(),
                       weight.data_ptr<T>(), act.data_ptr<T>());
    });
    const Tensor narrow_act = for_product(act, how);
    Tensor y = at::empty({rows.size(0), x.size(1)}, rows.options());
    grouped(y, narrow_act, b2, true, sorted.offsets);
    Tensor out = at::zeros_like(x);
    out.index_add_(0, sorted.rows, y.to(x.scalar_type()));
    ctx->save_for_backward({rows, weight, g, u, narrow_act, b1, b3, b2, sorted.rows, sorted.pairs});
    ctx->saved_data["offsets"] = sorted.offsets;
    ctx->saved_data["limit"] = limit;
    ctx->saved_data["shape"] = std::vector<int64_t>{x.size(0), route.size(1)};
    return out;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto& [rows, weight, g, u] = std::tie(saved[0], saved[1], saved[2], saved[3]);
    const auto offsets = ctx->saved_data["offsets"].toIntVector();
    const auto shape = ctx->saved_data["shape"].toIntVector();
    const double limit = ctx->saved_data["limit"].toDouble();
    const int64_t experts = saved[5].size(0);
    const auto type = g.scalar_type();
    const Tensor d_y = grads[0].to(rows.scalar_type()).index_select(0, saved[8]);
    const Tensor d_w2 = grouped_outer(d_y, saved[4], experts, offsets);
    Tensor d_act = at::empty({rows.size(0), g.size(1)}, rows.options());
    grouped(d_act, d_y, saved[7], false, offsets);
    d_act = d_act.to(type);
    const Tensor d_u = at::empty_like(u);
    const Tensor d_weight = at::empty_like(weight);
    by_type(g, [&](auto zero) {
      using T = decltype(zero);
      activate_backward({g.size(0), g.size(1), limit}, g.data_ptr<T>(), u.data_ptr<T>(),
                        weight.data_ptr<T>(), d_act.data_ptr<T>(), d_u.data_ptr<T>(),
                        d_weight.data_ptr<T>());
    });
    const Tensor narrow_g = d_act.to(rows.scalar_type());
    const Tensor narrow_u = d_u.to(rows.scalar_type());
    const Tensor d_w1 = grouped_outer(narrow_g, rows, experts, offsets);
    const Tensor d_w3 = grouped_outer(narrow_u, rows, experts, offsets);
    Tensor d_rows = at::empty_like(rows);
    Tensor d_rows3 = at::empty_like(rows);
    grouped(d_rows, narrow_g, saved[5], false, offsets);
    grouped(d_rows3, narrow_u, saved[6], false, offsets);
    Tensor d_x = at::zeros({shape[0], rows.size(1)}, g.options());
    d_x.index_add_(0, saved[8], d_rows.to(type).add_(d_rows3));
    Tensor d_route = at::empty({shape[0] * shape[1] + 1}, g.options());
    d_route.index_copy_(0, saved[9], d_weight);
    d_route = d_route.narrow(0, 0, shape[0] * shape[1]).view({shape[0], shape[1]});
    const Tensor none;
    return {d_x, d_route, d_w1.to(type), d_w3.to(type), d_w2.to(type), none, none, none};
  }
};

}  // namespace

Tensor experts(const Tensor& x, const Tensor& route, const Indices& ids,
               const ExpertWeights& weights, double limit, Products products) {
  CHECK_EQ(static_cast<int64_t>(ids->size()), x.size(0) * route.size(1));
  return ExpertsFunction::apply(x, route, weights.w1, weights.w3, weights.w2, ids, limit,
                                static_cast<int64_t>(products));
}

}  // namespace thimble::train::internal
