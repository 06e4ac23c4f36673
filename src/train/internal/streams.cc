// The residual streams: collapse to one row, spread back, and the mixing coefficients.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "train/internal/kernels.h"
#include "train/internal/lanes-inl.h"

namespace thimble::train::internal {
namespace {

constexpr int64_t kMaxCopies = 8;

template <class T>
inline void weighted_sum(const StreamShape& s, const T* h, const T* pre, T* x) {
  std::fill(x, x + s.width, T(0));
  for (int64_t i = 0; i < s.copies; ++i) add_scaled(pre[i], h + i * s.width, x, s.width);
}

template <class T>
inline void collapse(const StreamShape& s, const T* h, const T* pre, const T* weight, T* x,
                     T* scale) {
  for (int64_t row = 0; row < s.rows; ++row) {
    T* to = x + row * s.width;
    weighted_sum(s, h + row * s.copies * s.width, pre + row * s.copies, to);
    const T mean = dot(to, to, s.width) / static_cast<T>(s.width);
    const T r = T(1) / std::sqrt(mean + static_cast<T>(s.eps));
    for (int64_t c = 0; c < s.width; ++c) to[c] = to[c] * r * weight[c];
    scale[row] = r;
  }
}

template <class T>
inline void collapse_gradient(const StreamShape& s, const T* h, const T* pre, const T* weight,
                              const T* scale, const T* d_x, T* d_h, T* d_pre, T* d_weight) {
  std::vector<T> sum(static_cast<size_t>(s.width));
  std::vector<T> d(sum.size());
  for (int64_t row = 0; row < s.rows; ++row) {
    const T* streams = h + row * s.copies * s.width;
    const T* from = d_x + row * s.width;
    weighted_sum(s, streams, pre + row * s.copies, sum.data());
    const T r = scale[row];
    for (int64_t c = 0; c < s.width; ++c) {
      d_weight[c] += from[c] * sum[static_cast<size_t>(c)] * r;
      d[static_cast<size_t>(c)] = from[c] * weight[c];
    }
    const T along = dot(d.data(), sum.data(), s.width) * r * r / static_cast<T>(s.width);
    for (size_t c = 0; c < d.size(); ++c) d[c] = r * (d[c] - sum[c] * along);
    for (int64_t i = 0; i < s.copies; ++i) {
      const T weight_i = pre[row * s.copies + i];
      T* to = d_h + (row * s.copies + i) * s.width;
      d_pre[row * s.copies + i] = dot(d.data(), streams + i * s.width, s.width);
      for (int64_t c = 0; c < s.width; ++c) to[c] = weight_i * d[static_cast<size_t>(c)];
    }
  }
}

template <class T>
inline void spread(const StreamShape& s, const T* h, const T* y, const T* mix, T* out) {
  const int64_t n = s.copies;
  for (int64_t row = 0; row < s.rows; ++row) {
    const T* m = mix + row * n * (2 + n);
    for (int64_t j = 0; j < n; ++j) {
      T* to = out + (row * n + j) * s.width;
      const T* from = y + row * s.width;
      for (int64_t c = 0; c < s.width; ++c) to[c] = m[n + j] * from[c];
      for (int64_t i = 0; i < n; ++i) {
        add_scaled(m[2 * n + i * n + j], h + (row * n + i) * s.width, to, s.width);
      }
    }
  }
}

template <class T>
inline void spread_gradient(const StreamShape& s, const T* h, const T* y, const T* mix,
                            const T* d_out, T* d_h, T* d_y, T* d_mix) {
  const int64_t n = s.copies;
  for (int64_t row = 0; row < s.rows; ++row) {
    const T* m = mix + row * n * (2 + n);
    T* d_m = d_mix + row * n * (2 + n);
    const T* d = d_out + row * n * s.width;
    T* to = d_y + row * s.width;
    std::fill(to, to + s.width, T(0));
    for (int64_t j = 0; j < n; ++j) {
      d_m[j] = 0;
      d_m[n + j] = dot(d + j * s.width, y + row * s.width, s.width);
      add_scaled(m[n + j], d + j * s.width, to, s.width);
    }
    for (int64_t i = 0; i < n; ++i) {
      const T* from = h + (row * n + i) * s.width;
      T* d_from = d_h + (row * n + i) * s.width;
      std::fill(d_from, d_from + s.width, T(0));
      for (int64_t j = 0; j < n; ++j) {
        d_m[2 * n + i * n + j] = dot(d + j * s.width, from, s.width);
        add_scaled(m[2 * n + i * n + j], d + j * s.width, d_from, s.width);
      }
    }
  }
}

template <class T>
inline T sigmoid(T z) {
  return T(1) / (T(1) + std::exp(-z));
}

// One row's Sinkhorn, with the state before every normalisation kept in `trail`
// [1 + 2 * iterations, n * n]; returns the last.
template <class T>
inline int64_t sinkhorn(const StreamShape& s, const T* z, T* trail) {
  const int64_t n = s.copies;
  const T eps = static_cast<T>(s.eps);
  for (int64_t i = 0; i < n; ++i) {  // softmax of each row
    const T top = *std::max_element(z + i * n, z + (i + 1) * n);
    T sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += trail[i * n + j] = std::exp(z[i * n + j] - top);
    for (int64_t j = 0; j < n; ++j) trail[i * n + j] = trail[i * n + j] / sum + eps;
  }
  const int64_t steps = 2 * s.iterations - 1;  // columns, then pairs of rows and columns
  for (int64_t step = 0; step < steps; ++step) {
    const T* from = trail + step * n * n;
    T* to = trail + (step + 1) * n * n;
    const int64_t along = step % 2 == 0 ? n : 1;
    const int64_t across = step % 2 == 0 ? 1 : n;
    for (int64_t i = 0; i < n; ++i) {
      T sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += from[i * across + j * along];
      const T inverse = T(1) / (sum + eps);
      for (int64_t j = 0; j < n; ++j) {
        to[i * across + j * along] = from[i * across + j * along] * inverse;
      }
    }
  }
  return steps;
}

template <class T>
inline void mix(const StreamShape& s, const T* z, T* out) {
  const int64_t n = s.copies;
  const int64_t width = n * (2 + n);
  std::vector<T> trail(static_cast<size_t>(2 * s.iterations * n * n));
  for (int64_t row = 0; row < s.rows; ++row) {
    const T* from = z + row * width;
    T* to = out + row * width;
    for (int64_t i = 0; i < n; ++i) to[i] = sigmoid(from[i]) + static_cast<T>(s.eps);
    for (int64_t i = n; i < 2 * n; ++i) to[i] = 2 * sigmoid(from[i]);
    const int64_t last = sinkhorn(s, from + 2 * n, trail.data());
    std::copy_n(trail.data() + last * n * n, n * n, to + 2 * n);
  }
}

// d [n * n] goes back through the normalisations, newest first, then through the softmax.
template <class T>
inline void sinkhorn_gradient(const StreamShape& s, const T* trail, int64_t steps, T* d) {
  const int64_t n = s.copies;
  const T eps = static_cast<T>(s.eps);
  for (int64_t step = steps - 1; step >= 0; --step) {
    const T* from = trail + step * n * n;
    const T* to = trail + (step + 1) * n * n;
    const int64_t along = step % 2 == 0 ? n : 1;
    const int64_t across = step % 2 == 0 ? 1 : n;
    for (int64_t i = 0; i < n; ++i) {
      T sum = 0;
      T inner = 0;
      for (int64_t j = 0; j < n; ++j) {
        sum += from[i * across + j * along];
        inner += d[i * across + j * along] * to[i * across + j * along];
      }
      const T inverse = T(1) / (sum + eps);
      for (int64_t j = 0; j < n; ++j) {
        d[i * across + j * along] = (d[i * across + j * along] - inner) * inverse;
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    T inner = 0;
    for (int64_t j = 0; j < n; ++j) inner += d[i * n + j] * (trail[i * n + j] - eps);
    for (int64_t j = 0; j < n; ++j) {
      d[i * n + j] = (trail[i * n + j] - eps) * (d[i * n + j] - inner);
    }
  }
}

template <class T>
inline void mix_gradient(const StreamShape& s, const T* z, const T* d_mix, T* d_z) {
  const int64_t n = s.copies;
  const int64_t width = n * (2 + n);
  std::vector<T> trail(static_cast<size_t>(2 * s.iterations * n * n));
  for (int64_t row = 0; row < s.rows; ++row) {
    const T* from = z + row * width;
    T* to = d_z + row * width;
    for (int64_t i = 0; i < 2 * n; ++i) {
      const T g = sigmoid(from[i]);
      to[i] = (i < n ? 1 : 2) * g * (1 - g) * d_mix[row * width + i];
    }
    const int64_t steps = sinkhorn(s, from + 2 * n, trail.data());
    std::copy_n(d_mix + row * width + 2 * n, n * n, to + 2 * n);
    sinkhorn_gradient(s, trail.data(), steps, to + 2 * n);
  }
}

}  // namespace

__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
collapse_forward(const StreamShape& s, const float* h, const float* pre, const float* weight,
                 float* x, float* scale) {
  collapse(s, h, pre, weight, x, scale);
}
void collapse_forward(const StreamShape& s, const double* h, const double* pre,
                      const double* weight, double* x, double* scale) {
  collapse(s, h, pre, weight, x, scale);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
collapse_backward(const StreamShape& s, const float* h, const float* pre, const float* weight,
                  const float* scale, const float* d_x, float* d_h, float* d_pre, float* d_weight) {
  collapse_gradient(s, h, pre, weight, scale, d_x, d_h, d_pre, d_weight);
}
void collapse_backward(const StreamShape& s, const double* h, const double* pre,
                       const double* weight, const double* scale, const double* d_x, double* d_h,
                       double* d_pre, double* d_weight) {
  collapse_gradient(s, h, pre, weight, scale, d_x, d_h, d_pre, d_weight);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
spread_forward(const StreamShape& s, const float* h, const float* y, const float* mix_row,
               float* out) {
  spread(s, h, y, mix_row, out);
}
void spread_forward(const StreamShape& s, const double* h, const double* y, const double* mix_row,
                    double* out) {
  spread(s, h, y, mix_row, out);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
spread_backward(const StreamShape& s, const float* h, const float* y, const float* mix_row,
                const float* d_out, float* d_h, float* d_y, float* d_mix) {
  spread_gradient(s, h, y, mix_row, d_out, d_h, d_y, d_mix);
}
void spread_backward(const StreamShape& s, const double* h, const double* y, const double* mix_row,
                     const double* d_out, double* d_h, double* d_y, double* d_mix) {
  spread_gradient(s, h, y, mix_row, d_out, d_h, d_y, d_mix);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
mix_forward(const StreamShape& s, const float* z, float* out) {
  mix(s, z, out);
}
void mix_forward(const StreamShape& s, const double* z, double* out) { mix(s, z, out); }
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
mix_backward(const StreamShape& s, const float* z, const float* d_mix, float* d_z) {
  mix_gradient(s, z, d_mix, d_z);
}
void mix_backward(const StreamShape& s, const double* z, const double* d_mix, double* d_z) {
  mix_gradient(s, z, d_mix, d_z);
}

}  // namespace thimble::train::internal
