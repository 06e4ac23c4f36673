// Vectors of 64 bytes as the compiler knows them, and the few loops the kernels share. Everything
// is inlined into functions that are cloned for each x86 level.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace thimble::train::internal {

template <class T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(64)));
  static constexpr int64_t kCount = 64 / static_cast<int64_t>(sizeof(T));
};

template <class T>
inline typename Lanes<T>::Vector load_lanes(const T* from) {
  typename Lanes<T>::Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

// By halves: a fixed tree.
inline float sum_lanes(Lanes<float>::Vector v) {
  const auto a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                 __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto b =
      __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
  return (b[0] + b[2]) + (b[1] + b[3]);
}
inline double sum_lanes(Lanes<double>::Vector v) {
  const auto a =
      __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
  return (a[0] + a[2]) + (a[1] + a[3]);
}

template <class T>
inline T dot(const T* a, const T* b, int64_t n) {
  typename Lanes<T>::Vector sum{};
  int64_t i = 0;
  for (; i + Lanes<T>::kCount <= n; i += Lanes<T>::kCount) {
    sum += load_lanes(a + i) * load_lanes(b + i);
  }
  T total = sum_lanes(sum);
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// y += a x
template <class T>
inline void add_scaled(T a, const T* __restrict x, T* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

// e^x for x <= 0 or small: a polynomial after taking out the powers of two, so that loops over it
// become vector code. Relative error below 2e-7.
inline float exp_lane(float x) {
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504f + 12582912.0f;  // round to an integer in the low bits
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
}
inline double exp_lane(double x) { return std::exp(x); }

// Rotates the last `rope` of `dims` values; sign -1 rotates back.
template <class T>
inline void rotate_tail(T* vector, int64_t dims, int64_t rope, const T* cos, const T* sin, T sign) {
  T* tail = vector + dims - rope;
  for (int64_t i = 0; i < rope / 2; ++i) {
    const T a = tail[2 * i];
    const T b = tail[2 * i + 1];
    tail[2 * i] = a * cos[i] - b * sign * sin[i];
    tail[2 * i + 1] = a * sign * sin[i] + b * cos[i];
  }
}

}  // namespace thimble::train::internal
