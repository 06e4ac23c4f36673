// Row operations: norms, SwiGLU, hyper-connection sums, Engram gates. One row a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/generic/math-inl.h"
#include "kernels/internal/table_entries.h"

namespace thimble::kernels::generic {

// Lanes in use when i of n elements are done.
[[gnu::always_inline]] constexpr uint32_t lanes_left(uint64_t n, uint64_t i) {
  return n - i < 16 ? static_cast<uint32_t>(n - i) : 16u;
}

template <class V>
float sum_of_squares(const float* x, uint64_t n) {
  V acc = V::zero();
  for (uint64_t i = 0; i < n; i += 16) {
    const V v = V::load(x + i, lanes_left(n, i));
    acc = fma(v, v, acc);
  }
  return sum(acc);
}

template <class V>
void scale_row(const float* x, const std::byte* weight_bf16, float factor, uint64_t n, float* y) {
  for (uint64_t i = 0; i < n; i += 16) {
    const uint32_t m = lanes_left(n, i);
    const V scaled = V::load(x + i, m) * V::set(factor);
    (V::load_bf16(weight_bf16 + 2 * i, m) * scaled).store(y + i, m);
  }
}

template <class V>
void add_row(const float* x, uint64_t n, float* y) {
  for (uint64_t i = 0; i < n; i += 16) {
    const uint32_t m = lanes_left(n, i);
    (V::load(y + i, m) + V::load(x + i, m)).store(y + i, m);
  }
}

template <class V>
void exp(const float* x, uint64_t n, float* y) {
  for (uint64_t i = 0; i < n; i += 16) {
    const uint32_t m = lanes_left(n, i);
    exp_f32(V::load(x + i, m)).store(y + i, m);
  }
}

template <class V>
void router_scores(const float* logits, uint64_t n, float* scores) {
  for (uint64_t i = 0; i < n; i += 16) {
    const uint32_t m = lanes_left(n, i);
    sqrt(softplus(V::load(logits + i, m))).store(scores + i, m);
  }
}

template <class V>
void swiglu_row(const float* gate, const float* up, float limit, float row_weight, uint64_t n,
                float* out) {
  for (uint64_t i = 0; i < n; i += 16) {
    const uint32_t m = lanes_left(n, i);
    // In this operand order the clamps let NaN through.
    const V g = min(V::set(limit), V::load(gate + i, m));
    const V u = max(V::set(-limit), min(V::set(limit), V::load(up + i, m)));
    const V silu = g / (V::set(1.0f) + exp_f32(V::zero() - g));
    (silu * u * V::set(row_weight)).store(out + i, m);
  }
}

template <class V>
void pool_pair(const float* value0, const float* gate0, const float* value1, const float* gate1,
               uint64_t n, float* out) {
  for (uint64_t i = 0; i < n; i += 16) {
    const uint32_t m = lanes_left(n, i);
    const V g0 = V::load(gate0 + i, m);
    const V g1 = V::load(gate1 + i, m);
    const V top = max(g0, g1);
    const V e0 = exp_f32(g0 - top);
    const V e1 = exp_f32(g1 - top);
    const V total = e0 + e1;
    const V first = e0 / total * V::load(value0 + i, m);
    fma(e1 / total, V::load(value1 + i, m), first).store(out + i, m);
  }
}

template <class V>
void hc_collapse(const float* stream, const float* pre, uint32_t copies, uint64_t hidden,
                 float* x) {
  for (uint64_t i = 0; i < hidden; i += 16) {
    const uint32_t m = lanes_left(hidden, i);
    V acc = V::zero();
    for (uint32_t c = 0; c < copies; ++c) {
      acc = fma(V::set(pre[c]), V::load(stream + c * hidden + i, m), acc);
    }
    acc.store(x + i, m);
  }
}

template <class V>
void hc_post(float* stream, const float* y, const float* post, const float* comb, uint32_t copies,
             uint64_t hidden) {
  for (uint64_t i = 0; i < hidden; i += 16) {
    const uint32_t m = lanes_left(hidden, i);
    V old[kHcCopiesMax];
    for (uint32_t c = 0; c < copies; ++c) old[c] = V::load(stream + c * hidden + i, m);
    const V branch = V::load(y + i, m);
    for (uint32_t j = 0; j < copies; ++j) {
      V acc = V::set(post[j]) * branch;
      for (uint32_t c = 0; c < copies; ++c) acc = fma(V::set(comb[c * copies + j]), old[c], acc);
      acc.store(stream + j * hidden + i, m);
    }
  }
}

template <class V>
float engram_gate(const float* copy, const float* key, const std::byte* q_weight_bf16,
                  const std::byte* k_weight_bf16, uint64_t hidden, float eps) {
  V copy_squares = V::zero();
  V key_squares = V::zero();
  V products = V::zero();
  for (uint64_t i = 0; i < hidden; i += 16) {
    const uint32_t m = lanes_left(hidden, i);
    const V h = V::load(copy + i, m);
    const V k = V::load(key + i, m);
    copy_squares = fma(h, h, copy_squares);
    key_squares = fma(k, k, key_squares);
    const V hq = h * V::load_bf16(q_weight_bf16 + 2 * i, m);
    const V kk = k * V::load_bf16(k_weight_bf16 + 2 * i, m);
    products = fma(hq, kk, products);
  }
  const V width = V::set(static_cast<float>(hidden));
  const V one = V::set(1.0f);
  const V copy_norm = one / sqrt(V::set(sum(copy_squares)) / width + V::set(eps));
  const V key_norm = one / sqrt(V::set(sum(key_squares)) / width + V::set(eps));
  const V a = V::set(sum(products)) * copy_norm * key_norm * (one / sqrt(width));
  const V root = sqrt(max(V::set(1e-6f), abs(a)));
  float pair[16];
  a.store(pair);
  const V signed_root = __builtin_signbitf(pair[0]) ? V::zero() - root : root;
  sigmoid(signed_root).store(pair);
  return pair[0];
}

template <class V>
void engram_add(const float* value, float gate, uint64_t hidden, float* copy) {
  for (uint64_t i = 0; i < hidden; i += 16) {
    const uint32_t m = lanes_left(hidden, i);
    fma(V::set(gate), V::load(value + i, m), V::load(copy + i, m)).store(copy + i, m);
  }
}

}  // namespace thimble::kernels::generic
