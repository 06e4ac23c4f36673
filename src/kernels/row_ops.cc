// Operations on rows that need no more than one pass: norms, rotation, SwiGLU, pooling.
#include <cmath>

#include "base/check.h"
#include "kernels/internal/parallel.h"
#include "kernels/internal/rotate.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace thimble::kernels {

void rms_norm(Rows<const float> x, const std::byte* weight_bf16, float eps, Rows<float> y,
              Context context) {
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, y.cols);
  const Table& table = kernels();
  internal::for_rows(context, x.rows, 2 * x.cols, [&](uint64_t i) {
    const float mean = table.sum_of_squares(x.row(i), x.cols) / static_cast<float>(x.cols);
    const float factor = 1.0f / std::sqrt(mean + eps);
    table.scale_row(x.row(i), weight_bf16, factor, x.cols, y.row(i));
  });
}

void rope(Rows<float> x, uint32_t vectors, Rows<const float> cos, Rows<const float> sin,
          Rotation rotation, Context context) {
  CHECK_GE(vectors, 1u);
  CHECK_EQ(x.cols % vectors, 0u);
  CHECK_EQ(x.rows, cos.rows);
  CHECK_EQ(x.rows, sin.rows);
  CHECK_EQ(cos.cols, sin.cols);
  const uint64_t dims = x.cols / vectors;
  const uint64_t pairs = cos.cols;
  CHECK_LE(2 * pairs, dims);
  const float sign = rotation == Rotation::kForward ? 1.0f : -1.0f;
  internal::for_rows(context, x.rows, 2 * pairs * vectors, [&](uint64_t i) {
    internal::rotate(x.row(i), vectors, dims, cos.row(i), sin.row(i), pairs, sign);
  });
}

void swiglu(Rows<const float> gate, Rows<const float> up, float limit, const float* row_weight,
            Rows<float> out, Context context) {
  CHECK_EQ(gate.rows, up.rows);
  CHECK_EQ(gate.rows, out.rows);
  CHECK_EQ(gate.cols, up.cols);
  CHECK_EQ(gate.cols, out.cols);
  const Table& table = kernels();
  internal::for_rows(context, gate.rows, 4 * gate.cols, [&](uint64_t i) {
    const float weight = row_weight == nullptr ? 1.0f : row_weight[i];
    table.swiglu_row(gate.row(i), up.row(i), limit, weight, gate.cols, out.row(i));
  });
}

void add_rows(Rows<const float> x, Rows<float> y, Context context) {
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, y.cols);
  const Table& table = kernels();
  internal::for_rows(context, x.rows, x.cols,
                     [&](uint64_t i) { table.add_row(x.row(i), x.cols, y.row(i)); });
}

void pool_pair(const float* value0, const float* gate0, const float* value1, const float* gate1,
               uint32_t dims, float* out) {
  kernels().pool_pair(value0, gate0, value1, gate1, dims, out);
}

}  // namespace thimble::kernels
