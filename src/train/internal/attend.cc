// Attention over a window and selected entries, one query at a time: the keys of a query are few
// and shared by its heads, so they stay in the first-level cache while the heads pass over them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "train/internal/kernels.h"
#include "train/internal/lanes-inl.h"

namespace thimble::train::internal {
namespace {

// What one query works with; reused from query to query.
template <class T>
struct Scratch {
  std::vector<const T*> keys;     // pointers to the rows it reads: window, then slots
  std::vector<T*> key_gradients;  // where their gradients go
  std::vector<int64_t> slots;     // slot of each selected key
  int64_t window_keys = 0;
  std::vector<T> q, logits, weights, d_logits, rows;

  explicit Scratch(const AttendShape& s) {
    q.resize(static_cast<size_t>(s.heads * s.dims));
    rows.resize(q.size());
  }
  void reserve(size_t count) {
    if (logits.size() < count) {
      logits.resize(count);
      weights.resize(count);
      d_logits.resize(count);
    }
  }
};

template <class T>
inline void list_keys(const AttendShape& s, const AttendTensors<T>& in, int64_t row,
                      Scratch<T>& scratch) {
  scratch.keys.clear();
  scratch.slots.clear();
  for (int64_t k = s.window_first[row]; k <= row; ++k) {
    scratch.keys.push_back(in.window + k * s.dims);
  }
  scratch.window_keys = row + 1 - s.window_first[row];
  for (int64_t j = 0; j < s.slots; ++j) {
    const int64_t entry = s.selected[row * s.slots + j];
    if (entry < 0) continue;
    scratch.keys.push_back(in.main + entry * s.dims);
    scratch.slots.push_back(j);
  }
  scratch.reserve(scratch.keys.size());
}

template <class T>
inline void list_key_gradients(const AttendShape& s, const AttendGradients<T>& grad, int64_t row,
                               Scratch<T>& scratch) {
  scratch.key_gradients.clear();
  for (int64_t k = s.window_first[row]; k <= row; ++k) {
    scratch.key_gradients.push_back(grad.window + k * s.dims);
  }
  for (const int64_t slot : scratch.slots) {
    const int64_t entry = s.selected[row * s.slots + slot];
    scratch.key_gradients.push_back(grad.main + entry * s.dims);
  }
}

// The query's heads, rotated and scaled by 1/sqrt(dims).
template <class T>
inline void load_query(const AttendShape& s, const AttendTensors<T>& in, int64_t row,
                       Scratch<T>& scratch) {
  const T scale = T(1) / std::sqrt(static_cast<T>(s.dims));
  const T* from = in.q + row * s.heads * s.dims;
  for (int64_t i = 0; i < s.heads * s.dims; ++i)
    scratch.q[static_cast<size_t>(i)] = from[i] * scale;
  for (int64_t h = 0; h < s.heads; ++h) {
    rotate_tail(&scratch.q[static_cast<size_t>(h * s.dims)], s.dims, s.rope,
                in.cos + row * s.rope / 2, in.sin + row * s.rope / 2, T(1));
  }
}

template <class T>
inline void forward(const AttendShape& s, const AttendTensors<T>& in, T* out, T* lse, T* mass) {
  Scratch<T> scratch(s);
  for (int64_t row = 0; row < s.rows; ++row) {
    list_keys(s, in, row, scratch);
    load_query(s, in, row, scratch);
    const int64_t n = static_cast<int64_t>(scratch.keys.size());
    T* p = scratch.logits.data();
    if (mass != nullptr) std::fill(mass + row * s.slots, mass + (row + 1) * s.slots, T(0));
    for (int64_t h = 0; h < s.heads; ++h) {
      const T* q = &scratch.q[static_cast<size_t>(h * s.dims)];
      T top = in.sink[h];
      for (int64_t j = 0; j < n; ++j) {
        p[j] = dot(q, scratch.keys[static_cast<size_t>(j)], s.dims);
        top = std::max(top, p[j]);
      }
      for (int64_t j = 0; j < n; ++j) p[j] = exp_lane(p[j] - top);
      T sum = std::exp(in.sink[h] - top);
      for (int64_t j = 0; j < n; ++j) sum += p[j];
      const T inverse = T(1) / sum;
      lse[row * s.heads + h] = top + std::log(sum);
      T* o = out + (row * s.heads + h) * s.dims;
      std::fill(o, o + s.dims, T(0));
      for (int64_t j = 0; j < n; ++j) {
        add_scaled(p[j] * inverse, scratch.keys[static_cast<size_t>(j)], o, s.dims);
      }
      rotate_tail(o, s.dims, s.rope, in.cos + row * s.rope / 2, in.sin + row * s.rope / 2, T(-1));
      if (mass == nullptr) continue;
      const T share = inverse / static_cast<T>(s.heads);
      for (size_t k = 0; k < scratch.slots.size(); ++k) {
        mass[row * s.slots + scratch.slots[k]] +=
            p[scratch.window_keys + static_cast<int64_t>(k)] * share;
      }
    }
  }
}

// d_q of one head, rotated back and scaled, from its logits' gradients.
template <class T>
inline void head_gradient(const AttendShape& s, const AttendTensors<T>& in, int64_t row,
                          const Scratch<T>& scratch, const T* d_logits, T* d_q) {
  std::fill(d_q, d_q + s.dims, T(0));
  for (size_t j = 0; j < scratch.keys.size(); ++j) {
    add_scaled(d_logits[j], scratch.keys[j], d_q, s.dims);
  }
  rotate_tail(d_q, s.dims, s.rope, in.cos + row * s.rope / 2, in.sin + row * s.rope / 2, T(-1));
  const T scale = T(1) / std::sqrt(static_cast<T>(s.dims));
  for (int64_t i = 0; i < s.dims; ++i) d_q[i] *= scale;
}

template <class T>
inline void backward(const AttendShape& s, const AttendTensors<T>& in, const T* out, const T* lse,
                     const T* d_out, const AttendGradients<T>& grad) {
  Scratch<T> scratch(s);
  for (int64_t row = 0; row < s.rows; ++row) {
    list_keys(s, in, row, scratch);
    list_key_gradients(s, grad, row, scratch);
    load_query(s, in, row, scratch);
    const size_t n = scratch.keys.size();
    T* p = scratch.weights.data();
    T* d = scratch.d_logits.data();
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t at = (row * s.heads + h) * s.dims;
      const T* q = &scratch.q[static_cast<size_t>(h * s.dims)];
      T* d_o = &scratch.rows[static_cast<size_t>(h * s.dims)];
      std::copy(d_out + at, d_out + at + s.dims, d_o);
      const T inner = dot(d_o, out + at, s.dims);  // the same before and after the rotation
      rotate_tail(d_o, s.dims, s.rope, in.cos + row * s.rope / 2, in.sin + row * s.rope / 2, T(1));
      const T norm = lse[row * s.heads + h];
      for (size_t j = 0; j < n; ++j) {
        p[j] = dot(q, scratch.keys[j], s.dims) - norm;
        d[j] = dot(d_o, scratch.keys[j], s.dims);
      }
      for (size_t j = 0; j < n; ++j) {
        p[j] = exp_lane(p[j]);
        d[j] = p[j] * (d[j] - inner);
      }
      grad.sink[h] -= std::exp(in.sink[h] - norm) * inner;
      head_gradient(s, in, row, scratch, d, grad.q + at);
      for (size_t j = 0; j < n; ++j) {
        T* to = scratch.key_gradients[j];
        const T dj = d[j];
        const T pj = p[j];
        for (int64_t c = 0; c < s.dims; ++c) to[c] += dj * q[c] + pj * d_o[c];
      }
    }
  }
}

}  // namespace

__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
attend_forward(const AttendShape& s, const AttendTensors<float>& in, float* out, float* lse,
               float* mass) {
  forward(s, in, out, lse, mass);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
attend_forward(const AttendShape& s, const AttendTensors<double>& in, double* out, double* lse,
               double* mass) {
  forward(s, in, out, lse, mass);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
attend_backward(const AttendShape& s, const AttendTensors<float>& in, const float* out,
                const float* lse, const float* d_out, const AttendGradients<float>& grad) {
  backward(s, in, out, lse, d_out, grad);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
attend_backward(const AttendShape& s, const AttendTensors<double>& in, const double* out,
                const double* lse, const double* d_out, const AttendGradients<double>& grad) {
  backward(s, in, out, lse, d_out, grad);
}

}  // namespace thimble::train::internal
