// The gated activation of experts.
#include <algorithm>
#include <cmath>

#include "train/internal/kernels.h"
#include "train/internal/lanes-inl.h"

namespace thimble::train::internal {
namespace {

// exp_lane() takes what does not overflow; beyond 80 the sigmoid is 1 in float32 anyway.
template <class T>
inline T sigmoid(T x) {
  return T(1) / (T(1) + exp_lane(std::min(-x, T(80))));
}

template <class T>
inline void forward(const ActivateShape& s, const T* gate, const T* up, const T* weight, T* act) {
  const T limit = static_cast<T>(s.limit);
  for (int64_t row = 0; row < s.rows; ++row) {
    const T w = weight[row];
    for (int64_t i = row * s.inner; i < (row + 1) * s.inner; ++i) {
      const T a = std::min(gate[i], limit);
      const T b = std::max(-limit, std::min(up[i], limit));
      act[i] = a * sigmoid(a) * b * w;
    }
  }
}

template <class T>
inline void backward(const ActivateShape& s, const T* gate, const T* up, const T* weight,
                     T* __restrict d, T* __restrict d_up, T* d_weight) {
  const T limit = static_cast<T>(s.limit);
  for (int64_t row = 0; row < s.rows; ++row) {
    const T w = weight[row];
    const int64_t begin = row * s.inner;
    for (int64_t i = begin; i < begin + s.inner; ++i) {  // d_up: the unweighted product, for now
      const T a = std::min(gate[i], limit);
      d_up[i] = a * sigmoid(a) * std::max(-limit, std::min(up[i], limit));
    }
    d_weight[row] = dot(d + begin, d_up + begin, s.inner);
    for (int64_t i = begin; i < begin + s.inner; ++i) {
      const T a = std::min(gate[i], limit);
      const T b = std::max(-limit, std::min(up[i], limit));
      const T sigma = sigmoid(a);
      const T silu = a * sigma;
      const T scaled = d[i] * w;
      d_up[i] = up[i] >= -limit && up[i] <= limit ? scaled * silu : T(0);
      d[i] = gate[i] <= limit ? scaled * b * (sigma + silu * (T(1) - sigma)) : T(0);
    }
  }
}

}  // namespace

__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
activate_forward(const ActivateShape& s, const float* gate, const float* up, const float* weight,
                 float* act) {
  forward(s, gate, up, weight, act);
}
void activate_forward(const ActivateShape& s, const double* gate, const double* up,
                      const double* weight, double* act) {
  forward(s, gate, up, weight, act);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
activate_backward(const ActivateShape& s, const float* gate, const float* up, const float* weight,
                  float* d, float* d_up, float* d_weight) {
  backward(s, gate, up, weight, d, d_up, d_weight);
}
void activate_backward(const ActivateShape& s, const double* gate, const double* up,
                       const double* weight, double* d, double* d_up, double* d_weight) {
  backward(s, gate, up, weight, d, d_up, d_weight);
}

}  // namespace thimble::train::internal
