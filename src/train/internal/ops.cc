#include "train/internal/ops.h"

#include <cmath>

#include "base/check.h"
#include "numeric/block_fp8.h"
#include "numeric/kv_fp4.h"
#include "numeric/mxfp4.h"
#include "train/internal/kernels.h"
#include "train/internal/products.h"

namespace thimble::train::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::tensor_list;

// Calls f with a value of the tensor's type.
template <class F>
void by_type(const Tensor& x, F f) {
  if (x.scalar_type() == at::kDouble) {
    f(double{});
  } else {
    CHECK(x.scalar_type() == at::kFloat);
    f(float{});
  }
}

template <class T>
T* data(const Tensor& x) {
  return x.data_ptr<T>();
}

struct LinearFunction : Function<LinearFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, int64_t products) {
    const auto how = static_cast<Products>(products);
    const Tensor a = for_product(x, how);
    const Tensor b = for_product(w, how);
    ctx->save_for_backward({a, b});
    ctx->saved_data["type"] = static_cast<int64_t>(x.scalar_type());
    return at::mm(a, b.t()).to(x.scalar_type());
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto type = static_cast<at::ScalarType>(ctx->saved_data["type"].toInt());
    const Tensor d = grads[0].to(saved[0].scalar_type());
    Tensor dx;
    Tensor dw;
    if (ctx->needs_input_grad(0)) dx = at::mm(d, saved[1]).to(type);
    if (ctx->needs_input_grad(1)) dw = at::mm(d.t(), saved[0]).to(type);
    return {dx, dw, Tensor()};
  }
};

struct RoundFunction : Function<RoundFunction> {
  static Tensor forward(AutogradContext*, const Tensor& x, int64_t rounding) {
    Tensor y = x.clone(at::MemoryFormat::Contiguous);
    by_type(y, [&](auto zero) {
      using T = decltype(zero);
      const auto n = static_cast<uint64_t>(y.numel());
      switch (static_cast<Rounding>(rounding)) {
        case Rounding::kNone:
          break;
        case Rounding::kFp8:
          numeric::round_fp8(data<T>(y), n);
          break;
        case Rounding::kMxfp4:
          numeric::round_mxfp4(data<T>(y), n);
          break;
        case Rounding::kKvFp4:
          numeric::round_kv_fp4(data<T>(y), n);
          break;
      }
    });
    return y;
  }
  static tensor_list backward(AutogradContext*, tensor_list grads) { return {grads[0], Tensor()}; }
};

StreamShape stream_shape(const Tensor& h, double eps) {
  return {h.size(0), h.size(1), h.size(2), eps, 0};
}

struct CollapseFunction : Function<CollapseFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& h_in, const Tensor& pre_in,
                        const Tensor& weight, double eps) {
    const Tensor h = h_in.contiguous();
    const Tensor pre = pre_in.contiguous();
    Tensor x = at::empty({h.size(0), h.size(2)}, h.options());
    Tensor scale = at::empty({h.size(0)}, h.options());
    by_type(h, [&](auto zero) {
      using T = decltype(zero);
      collapse_forward(stream_shape(h, eps), data<T>(h), data<T>(pre), data<T>(weight), data<T>(x),
                       data<T>(scale));
    });
    ctx->save_for_backward({h, pre, weight, scale});
    return x;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor d = grads[0].contiguous();
    Tensor d_h = at::empty_like(saved[0]);
    Tensor d_pre = at::empty_like(saved[1]);
    Tensor d_weight = at::zeros_like(saved[2]);
    by_type(d, [&](auto zero) {
      using T = decltype(zero);
      collapse_backward(stream_shape(saved[0], 0), data<T>(saved[0]), data<T>(saved[1]),
                        data<T>(saved[2]), data<T>(saved[3]), data<T>(d), data<T>(d_h),
                        data<T>(d_pre), data<T>(d_weight));
    });
    return {d_h, d_pre, d_weight, Tensor()};
  }
};

struct SpreadFunction : Function<SpreadFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& h, const Tensor& y_in,
                        const Tensor& mix) {
    const Tensor y = y_in.contiguous();
    Tensor out = at::empty_like(h);
    by_type(h, [&](auto zero) {
      using T = decltype(zero);
      spread_forward(stream_shape(h, 0), data<T>(h), data<T>(y), data<T>(mix), data<T>(out));
    });
    ctx->save_for_backward({h, y, mix});
    return out;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor d = grads[0].contiguous();
    Tensor d_h = at::empty_like(saved[0]);
    Tensor d_y = at::empty_like(saved[1]);
    Tensor d_mix = at::empty_like(saved[2]);
    by_type(d, [&](auto zero) {
      using T = decltype(zero);
      spread_backward(stream_shape(saved[0], 0), data<T>(saved[0]), data<T>(saved[1]),
                      data<T>(saved[2]), data<T>(d), data<T>(d_h), data<T>(d_y), data<T>(d_mix));
    });
    return {d_h, d_y, d_mix};
  }
};

// (h . fn) / rms(h): the projection of the normalised streams without making them.
struct ProjectFunction : Function<ProjectFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& h, const Tensor& fn, double eps) {
    const Tensor flat = h.reshape({h.size(0), -1});
    const Tensor norm = at::linalg_vector_norm(flat, 2, at::IntArrayRef{1}, true);
    const Tensor r = norm.square().div(static_cast<double>(flat.size(1))).add(eps).rsqrt();
    const Tensor m = at::mm(flat, fn.t());
    ctx->save_for_backward({h, fn, r, m});
    return m * r;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor flat = saved[0].reshape({saved[0].size(0), -1});
    const Tensor& r = saved[2];
    const Tensor d_m = grads[0] * r;
    const Tensor d_r = (grads[0] * saved[3]).sum(1, true);
    const Tensor factor = d_r * r.pow(3).div(-static_cast<double>(flat.size(1)));
    Tensor d_h = at::mm(d_m, saved[1]);
    d_h.addcmul_(flat, factor);
    return {d_h.view_as(saved[0]), at::mm(d_m.t(), flat), Tensor()};
  }
};

struct MixFunction : Function<MixFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& z_in, int64_t copies, double eps,
                        int64_t iterations) {
    const Tensor z = z_in.contiguous();
    const StreamShape s{z.size(0), copies, 0, eps, iterations};
    Tensor out = at::empty_like(z);
    by_type(z, [&](auto zero) {
      using T = decltype(zero);
      mix_forward(s, data<T>(z), data<T>(out));
    });
    ctx->save_for_backward({z});
    ctx->saved_data["copies"] = copies;
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["iterations"] = iterations;
    return out;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const StreamShape s{saved[0].size(0), ctx->saved_data["copies"].toInt(), 0,
                        ctx->saved_data["eps"].toDouble(), ctx->saved_data["iterations"].toInt()};
    const Tensor d = grads[0].contiguous();
    Tensor d_z = at::empty_like(saved[0]);
    by_type(d, [&](auto zero) {
      using T = decltype(zero);
      mix_backward(s, data<T>(saved[0]), data<T>(d), data<T>(d_z));
    });
    return {d_z, Tensor(), Tensor(), Tensor()};
  }
};

Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, double sign) {
  Tensor y = x.clone(at::MemoryFormat::Contiguous);
  const int64_t heads = x.size(1);
  const int64_t dims = x.size(2);
  const int64_t pairs = cos.size(1);
  by_type(y, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = 0; row < y.size(0); ++row) {
      for (int64_t h = 0; h < heads; ++h) {
        T* tail = data<T>(y) + (row * heads + h + 1) * dims - 2 * pairs;
        for (int64_t i = 0; i < pairs; ++i) {
          const T c = data<T>(cos)[row * pairs + i];
          const T s = static_cast<T>(sign) * data<T>(sin)[row * pairs + i];
          const T a = tail[2 * i];
          const T b = tail[2 * i + 1];
          tail[2 * i] = a * c - b * s;
          tail[2 * i + 1] = a * s + b * c;
        }
      }
    }
  });
  return y;
}

struct RotateFunction : Function<RotateFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& cos,
                        const Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return rotated(x, cos, sin, 1);
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {rotated(grads[0], saved[0], saved[1], -1), Tensor(), Tensor()};
  }
};

struct CrossEntropyFunction : Function<CrossEntropyFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& logits, const Indices& labels,
                        double scale) {
    const int64_t rows = logits.size(0);
    const int64_t classes = logits.size(1);
    CHECK_EQ(static_cast<int64_t>(labels->size()), rows);
    const Tensor log_p = at::log_softmax(logits, 1);
    Tensor gradient = log_p.exp();
    double loss = 0;
    by_type(logits, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t row = 0; row < rows; ++row) {
        const int32_t label = (*labels)[static_cast<size_t>(row)];
        T* g = data<T>(gradient) + row * classes;
        if (label < 0) {
          std::fill(g, g + classes, T(0));
          continue;
        }
        loss -= static_cast<double>(data<T>(log_p)[row * classes + label]);
        g[label] -= 1;
      }
    });
    gradient.mul_(scale);
    ctx->save_for_backward({gradient});
    return at::scalar_tensor(loss * scale, logits.options());
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    return {ctx->get_saved_variables()[0] * grads[0], Tensor(), Tensor()};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& w, Products products) {
  return LinearFunction::apply(x, w, static_cast<int64_t>(products));
}

Tensor round_through(const Tensor& x, Rounding rounding) {
  if (rounding == Rounding::kNone) return x;
  const int64_t group = rounding == Rounding::kKvFp4 ? numeric::kKvFp4Group : numeric::kFp8Group;
  CHECK_EQ(x.size(-1) % group, 0);
  return RoundFunction::apply(x, static_cast<int64_t>(rounding));
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return collapse(x.unsqueeze(1), at::ones({x.size(0), 1}, x.options()), weight, eps);
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return RotateFunction::apply(x, cos, sin);
}

Tensor collapse(const Tensor& h, const Tensor& pre, const Tensor& weight, double eps) {
  return CollapseFunction::apply(h, pre, weight, eps);
}

Tensor spread(const Tensor& h, const Tensor& y, const Tensor& mix) {
  return SpreadFunction::apply(h, y, mix);
}

Tensor hyper_mix(const Tensor& h, const HyperWeights& weights, double norm_eps, double eps,
                 int64_t iterations) {
  const int64_t n = h.size(1);
  const Tensor m = ProjectFunction::apply(h, weights.fn, norm_eps);
  const Tensor scale =
      at::cat({weights.scale.narrow(0, 0, 1).expand({n}), weights.scale.narrow(0, 1, 1).expand({n}),
               weights.scale.narrow(0, 2, 1).expand({n * n})});
  return MixFunction::apply(m * scale + weights.base, n, eps, iterations);
}

Tensor cross_entropy(const Tensor& logits, const Indices& labels, double scale) {
  return CrossEntropyFunction::apply(logits, labels, scale);
}

Tensor engram_gate(const Tensor& score) {
  return at::sigmoid(at::sign(score) * at::sqrt(at::clamp_min(at::abs(score), 1e-6)));
}

}  // namespace thimble::train::internal
