// The inner loops of training that a graph of library calls would do badly: attention over gathered
// rows, index scores, and the small algebra of the residual streams, each with its gradient.
//
// Plain loops over plain pointers; the functions of ops.h wrap them for autograd. T is float or
// double (double for gradient checks). Single-threaded and allocation-free but for scratch: a shard
// of the batch calls them from its own thread, so a sum never depends on the number of threads.
// GCC makes one clone for each x86 level. Sources: training spec 5 to 6, 10; backbone spec 4 to 6.
#pragma once

#include <cstdint>

namespace thimble::train::internal {

// Geometry of one attention call. Query i reads the window rows [window_first[i], i] and the
// entries selected[i, :] >= 0. Keys are values.
struct AttendShape {
  int64_t rows = 0;  // queries, and window rows
  int64_t heads = 0;
  int64_t dims = 0;                       // of a head
  int64_t rope = 0;                       // last dims that rotate
  int64_t slots = 0;                      // width of `selected`; 0: window only
  const int32_t* window_first = nullptr;  // [rows]
  const int32_t* selected = nullptr;      // [rows, slots] entries, -1 where empty
};

// Sums with a learned sink in the softmax; output rotated back at the query's position.
template <class T>
struct AttendTensors {
  const T* q = nullptr;       // [rows, heads, dims] not rotated yet
  const T* window = nullptr;  // [rows, dims] rotated, rounded
  const T* main = nullptr;    // [entries, dims] rotated, rounded
  const T* sink = nullptr;    // [heads]
  const T* cos = nullptr;     // [rows, rope / 2]
  const T* sin = nullptr;
};

// out [rows, heads, dims]; lse [rows, heads]: log of the softmax's denominator; mass [rows, slots]:
// each slot's probability, mean over heads (may be null).
void attend_forward(const AttendShape& s, const AttendTensors<float>& in, float* out, float* lse,
                    float* mass);
void attend_forward(const AttendShape& s, const AttendTensors<double>& in, double* out, double* lse,
                    double* mass);

// Adds to d_window, d_main and d_sink; writes d_q.
template <class T>
struct AttendGradients {
  T* q = nullptr;
  T* window = nullptr;
  T* main = nullptr;
  T* sink = nullptr;
};
void attend_backward(const AttendShape& s, const AttendTensors<float>& in, const float* out,
                     const float* lse, const float* d_out, const AttendGradients<float>& grad);
void attend_backward(const AttendShape& s, const AttendTensors<double>& in, const double* out,
                     const double* lse, const double* d_out, const AttendGradients<double>& grad);

// Index scores: sum over heads of weight * relu(q . key). `q` and keys rotated and rounded; weights
// scaled.
struct IndexShape {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t dims = 0;
};

// Scores of one query over `count` keys that lie transposed: keys_t [dims, stride]. scores [count].
void index_scores(const IndexShape& s, const float* q, const float* weights, const float* keys_t,
                  int64_t stride, int64_t count, float* scores);
void index_scores(const IndexShape& s, const double* q, const double* weights, const double* keys_t,
                  int64_t stride, int64_t count, double* scores);

// Scores at selected slots, and their gradient. selected [rows, slots]; empty slots give 0.
void rescore_forward(const IndexShape& s, int64_t slots, const int32_t* selected, const float* q,
                     const float* weights, const float* keys, float* scores);
void rescore_forward(const IndexShape& s, int64_t slots, const int32_t* selected, const double* q,
                     const double* weights, const double* keys, double* scores);
template <class T>
struct RescoreGradients {
  T* q = nullptr;        // [rows, heads, dims] zeroed by the caller
  T* weights = nullptr;  // [rows, heads] zeroed by the caller
  T* keys = nullptr;     // [entries, dims] zeroed by the caller
};
void rescore_backward(const IndexShape& s, int64_t slots, const int32_t* selected, const float* q,
                      const float* weights, const float* keys, const float* d_scores,
                      const RescoreGradients<float>& grad);
void rescore_backward(const IndexShape& s, int64_t slots, const int32_t* selected, const double* q,
                      const double* weights, const double* keys, const double* d_scores,
                      const RescoreGradients<double>& grad);

// Residual streams: h [rows, copies, width].
struct StreamShape {
  int64_t rows = 0;
  int64_t copies = 0;
  int64_t width = 0;
  double eps = 0;          // of the norm, or of hyper-connections where it says so
  int64_t iterations = 0;  // of Sinkhorn
};

// x = rms_norm(sum_i pre_i h_i) * weight. pre [rows, copies], weight [width]; scale [rows]: 1/rms.
void collapse_forward(const StreamShape& s, const float* h, const float* pre, const float* weight,
                      float* x, float* scale);
void collapse_forward(const StreamShape& s, const double* h, const double* pre,
                      const double* weight, double* x, double* scale);
// Writes d_h, d_pre; adds to d_weight.
void collapse_backward(const StreamShape& s, const float* h, const float* pre, const float* weight,
                       const float* scale, const float* d_x, float* d_h, float* d_pre,
                       float* d_weight);
void collapse_backward(const StreamShape& s, const double* h, const double* pre,
                       const double* weight, const double* scale, const double* d_x, double* d_h,
                       double* d_pre, double* d_weight);

// out_j = post_j y + sum_i comb[i][j] h_i. `mix` holds [rows, copies * (2 + copies)]: pre, post,
// comb.
void spread_forward(const StreamShape& s, const float* h, const float* y, const float* mix,
                    float* out);
void spread_forward(const StreamShape& s, const double* h, const double* y, const double* mix,
                    double* out);
// Writes all three; d_mix's pre part is zero.
void spread_backward(const StreamShape& s, const float* h, const float* y, const float* mix,
                     const float* d_out, float* d_h, float* d_y, float* d_mix);
void spread_backward(const StreamShape& s, const double* h, const double* y, const double* mix,
                     const double* d_out, double* d_h, double* d_y, double* d_mix);

// z [rows, copies * (2 + copies)] to (sigmoid + eps, 2 sigmoid, Sinkhorn). eps: hyper-connections'.
void mix_forward(const StreamShape& s, const float* z, float* mix);
void mix_forward(const StreamShape& s, const double* z, double* mix);
void mix_backward(const StreamShape& s, const float* z, const float* d_mix, float* d_z);
void mix_backward(const StreamShape& s, const double* z, const double* d_mix, double* d_z);

// The gated activation: silu(min(gate, limit)) * clamp(up) * weight, row by row.
struct ActivateShape {
  int64_t rows = 0;
  int64_t inner = 0;
  double limit = 0;
};

// gate, up, act [rows, inner]; weight [rows].
void activate_forward(const ActivateShape& s, const float* gate, const float* up,
                      const float* weight, float* act);
void activate_forward(const ActivateShape& s, const double* gate, const double* up,
                      const double* weight, double* act);
// `d` holds the gradient of act and becomes that of gate; d_up and d_weight are written.
void activate_backward(const ActivateShape& s, const float* gate, const float* up,
                       const float* weight, float* d, float* d_up, float* d_weight);
void activate_backward(const ActivateShape& s, const double* gate, const double* up,
                       const double* weight, double* d, double* d_up, double* d_weight);

}  // namespace thimble::train::internal
