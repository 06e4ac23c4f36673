// Attention and index scores as autograd functions.
#include <algorithm>

#include "base/check.h"
#include "train/internal/kernels.h"
#include "train/internal/ops.h"

namespace thimble::train::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::tensor_list;

// An index array as a tensor that keeps it alive, so that the graph can save it.
Tensor shared_tensor(const Indices& indices) {
  if (!indices) return at::empty({0}, at::kInt);
  return at::from_blob(
      const_cast<int32_t*>(indices->data()), {static_cast<int64_t>(indices->size())},
      [indices](void*) {}, at::kInt);
}

AttendShape shape_of(const Tensor& q, const Tensor& cos, const Tensor& window_first,
                     const Tensor& selected) {
  AttendShape s;
  s.rows = q.size(0);
  s.heads = q.size(1);
  s.dims = q.size(2);
  s.rope = 2 * cos.size(1);
  s.slots = s.rows == 0 ? 0 : selected.numel() / s.rows;
  s.window_first = window_first.data_ptr<int32_t>();
  s.selected = selected.data_ptr<int32_t>();
  return s;
}

template <class T>
AttendTensors<T> tensors_of(const Tensor& q, const Tensor& window, const Tensor& main,
                            const Tensor& sink, const Tensor& cos, const Tensor& sin) {
  return {q.data_ptr<T>(),    window.data_ptr<T>(), main.defined() ? main.data_ptr<T>() : nullptr,
          sink.data_ptr<T>(), cos.data_ptr<T>(),    sin.data_ptr<T>()};
}

struct AttendFunction : Function<AttendFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const Tensor& window_in,
                        const Tensor& main_in, const Tensor& sink, const Tensor& cos,
                        const Tensor& sin, const Tensor& window_first, const Tensor& selected,
                        Tensor* mass) {
    const Tensor q = q_in.contiguous();
    const Tensor window = window_in.contiguous();
    const Tensor main = main_in.contiguous();
    const AttendShape s = shape_of(q, cos, window_first, selected);
    Tensor out = at::empty_like(q);
    Tensor lse = at::empty({s.rows, s.heads}, q.options());
    if (mass != nullptr) *mass = at::empty({s.rows, s.slots}, q.options());
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      attend_forward(s, tensors_of<T>(q, window, main, sink, cos, sin), out.data_ptr<T>(),
                     lse.data_ptr<T>(), mass != nullptr ? mass->data_ptr<T>() : nullptr);
    };
    q.scalar_type() == at::kDouble ? run(double{}) : run(float{});
    ctx->save_for_backward({q, window, main, sink, cos, sin, out, lse, window_first, selected});
    return out;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor d = grads[0].contiguous();
    Tensor d_q = at::empty_like(saved[0]);
    Tensor d_window = at::zeros_like(saved[1]);
    Tensor d_main = at::zeros_like(saved[2]);
    Tensor d_sink = at::zeros_like(saved[3]);
    const AttendShape s = shape_of(saved[0], saved[4], saved[8], saved[9]);
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      attend_backward(s, tensors_of<T>(saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]),
                      saved[6].data_ptr<T>(), saved[7].data_ptr<T>(), d.data_ptr<T>(),
                      AttendGradients<T>{d_q.data_ptr<T>(), d_window.data_ptr<T>(),
                                         d_main.data_ptr<T>(), d_sink.data_ptr<T>()});
    };
    d.scalar_type() == at::kDouble ? run(double{}) : run(float{});
    return {d_q, d_window, d_main, d_sink, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

int64_t slots_of(const IndexShape& s, const Tensor& selected) {
  return s.rows == 0 ? 0 : selected.numel() / s.rows;
}

struct RescoreFunction : Function<RescoreFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& weights_in,
                        const Tensor& keys, const Tensor& selected) {
    const Tensor weights = weights_in.contiguous();
    const IndexShape s{q.size(0), q.size(1), q.size(2)};
    Tensor scores = at::empty({s.rows, slots_of(s, selected)}, q.options());
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      rescore_forward(s, slots_of(s, selected), selected.data_ptr<int32_t>(), q.data_ptr<T>(),
                      weights.data_ptr<T>(), keys.data_ptr<T>(), scores.data_ptr<T>());
    };
    q.scalar_type() == at::kDouble ? run(double{}) : run(float{});
    ctx->save_for_backward({q, weights, keys, selected});
    return scores;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor d = grads[0].contiguous();
    Tensor d_q = at::zeros_like(saved[0]);
    Tensor d_weights = at::zeros_like(saved[1]);
    Tensor d_keys = at::zeros_like(saved[2]);
    const IndexShape s{d_q.size(0), d_q.size(1), d_q.size(2)};
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      rescore_backward(
          s, slots_of(s, saved[3]), saved[3].data_ptr<int32_t>(), saved[0].data_ptr<T>(),
          saved[1].data_ptr<T>(), saved[2].data_ptr<T>(), d.data_ptr<T>(),
          RescoreGradients<T>{d_q.data_ptr<T>(), d_weights.data_ptr<T>(), d_keys.data_ptr<T>()});
    };
    d.scalar_type() == at::kDouble ? run(double{}) : run(float{});
    return {d_q, d_weights, d_keys, Tensor()};
  }
};

}  // namespace

Tensor attend(const AttendInputs& in, Tensor* mass) {
  const Tensor main = in.main.defined() ? in.main : at::zeros({1, in.q.size(2)}, in.q.options());
  return AttendFunction::apply(in.q, in.window, main, in.sink, in.cos, in.sin,
                               shared_tensor(in.window_first), shared_tensor(in.selected), mass);
}

Tensor rescore(const Tensor& q, const Tensor& weights, const Tensor& keys,
               const Indices& selected) {
  return RescoreFunction::apply(q.contiguous(), weights, keys.contiguous(),
                                shared_tensor(selected));
}

}  // namespace thimble::train::internal
