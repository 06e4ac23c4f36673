// Index scores: over all keys of a document to select, and at selected slots to learn.
#include <algorithm>
#include <vector>

#include "train/internal/kernels.h"
#include "train/internal/lanes-inl.h"

namespace thimble::train::internal {
namespace {

// Lanes are keys: a block of them stays in registers while the dims of a head pass.
template <class T>
inline void scores_of(const IndexShape& s, const T* q, const T* weights, const T* keys_t,
                      int64_t stride, int64_t count, T* scores) {
  using V = typename Lanes<T>::Vector;
  constexpr int64_t kLanes = Lanes<T>::kCount;
  int64_t j = 0;
  for (; j + 2 * kLanes <= count; j += 2 * kLanes) {
    V sum0{};
    V sum1{};
    for (int64_t h = 0; h < s.heads; ++h) {
      V a{};
      V b{};
      for (int64_t c = 0; c < s.dims; ++c) {
        const T value = q[h * s.dims + c];
        a += load_lanes(keys_t + c * stride + j) * value;
        b += load_lanes(keys_t + c * stride + j + kLanes) * value;
      }
      sum0 += (a > 0 ? a : V{}) * weights[h];
      sum1 += (b > 0 ? b : V{}) * weights[h];
    }
    std::memcpy(scores + j, &sum0, sizeof(sum0));
    std::memcpy(scores + j + kLanes, &sum1, sizeof(sum1));
  }
  for (; j < count; ++j) {
    T sum = 0;
    for (int64_t h = 0; h < s.heads; ++h) {
      T a = 0;
      for (int64_t c = 0; c < s.dims; ++c) a += keys_t[c * stride + j] * q[h * s.dims + c];
      sum += (a > 0 ? a : T(0)) * weights[h];
    }
    scores[j] = sum;
  }
}

template <class T>
inline void rescore(const IndexShape& s, int64_t slots, const int32_t* selected, const T* q,
                    const T* weights, const T* keys, T* scores) {
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t j = 0; j < slots; ++j) {
      const int64_t entry = selected[row * slots + j];
      T sum = 0;
      for (int64_t h = 0; entry >= 0 && h < s.heads; ++h) {
        const T a = dot(q + (row * s.heads + h) * s.dims, keys + entry * s.dims, s.dims);
        if (a > 0) sum += a * weights[row * s.heads + h];
      }
      scores[row * slots + j] = sum;
    }
  }
}

template <class T>
inline void rescore_gradient(const IndexShape& s, int64_t slots, const int32_t* selected,
                             const T* q, const T* weights, const T* keys, const T* d_scores,
                             const RescoreGradients<T>& grad) {
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t j = 0; j < slots; ++j) {
      const int64_t entry = selected[row * slots + j];
      const T d = d_scores[row * slots + j];
      if (entry < 0 || d == T(0)) continue;
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t at = (row * s.heads + h) * s.dims;
        const T a = dot(q + at, keys + entry * s.dims, s.dims);
        if (!(a > 0)) continue;
        const T scaled = d * weights[row * s.heads + h];
        grad.weights[row * s.heads + h] += d * a;
        add_scaled(scaled, keys + entry * s.dims, grad.q + at, s.dims);
        add_scaled(scaled, q + at, grad.keys + entry * s.dims, s.dims);
      }
    }
  }
}

}  // namespace

__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
index_scores(const IndexShape& s, const float* q, const float* weights, const float* keys_t,
             int64_t stride, int64_t count, float* scores) {
  scores_of(s, q, weights, keys_t, stride, count, scores);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
index_scores(const IndexShape& s, const double* q, const double* weights, const double* keys_t,
             int64_t stride, int64_t count, double* scores) {
  scores_of(s, q, weights, keys_t, stride, count, scores);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
rescore_forward(const IndexShape& s, int64_t slots, const int32_t* selected, const float* q,
                const float* weights, const float* keys, float* scores) {
  rescore(s, slots, selected, q, weights, keys, scores);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
rescore_forward(const IndexShape& s, int64_t slots, const int32_t* selected, const double* q,
                const double* weights, const double* keys, double* scores) {
  rescore(s, slots, selected, q, weights, keys, scores);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
rescore_backward(const IndexShape& s, int64_t slots, const int32_t* selected, const float* q,
                 const float* weights, const float* keys, const float* d_scores,
                 const RescoreGradients<float>& grad) {
  rescore_gradient(s, slots, selected, q, weights, keys, d_scores, grad);
}
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten)) void
rescore_backward(const IndexShape& s, int64_t slots, const int32_t* selected, const double* q,
                 const double* weights, const double* keys, const double* d_scores,
                 const RescoreGradients<double>& grad) {
  rescore_gradient(s, slots, selected, q, weights, keys, d_scores, grad);
}

}  // namespace thimble::train::internal
