#include "train/internal/stored_forms.h"

#include <algorithm>
#include <cmath>

#include "numeric/block_fp8.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "numeric/mxfp4.h"

namespace thimble::train::internal {
namespace {

constexpr int64_t kTile = 32;

// Rows [row, row + 32) and columns [col, col + 32) of a matrix under one scale.
void encode_tile(const float* values, int64_t rows, int64_t cols, int64_t row, int64_t col,
                 StoredMatrix& out) {
  const int64_t end = std::min(rows, row + kTile);
  float amax = 0;
  for (int64_t r = row; r < end; ++r) {
    for (int64_t c = col; c < col + kTile; ++c) {
      amax = std::max(amax, std::fabs(values[r * cols + c]));
    }
  }
  const uint8_t scale = numeric::float_to_e8m0_ceil(amax * (1.0f / numeric::kE4m3Max));
  const float inverse = numeric::e8m0_inverse(scale);
  out.scales.push_back(scale);
  for (int64_t r = row; r < end; ++r) {
    for (int64_t c = col; c < col + kTile; ++c) {
      const auto at = static_cast<size_t>(r * cols + c);
      out.codes[at] = numeric::float_to_e4m3(values[at] * inverse);
    }
  }
}

StoredMatrix encode_tiles(const float* values, int64_t rows, int64_t cols) {
  StoredMatrix out;
  out.codes.resize(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; r += kTile) {
    for (int64_t c = 0; c < cols; c += kTile) encode_tile(values, rows, cols, r, c, out);
  }
  return out;
}

}  // namespace

StoredMatrix encode(Stored form, const float* values, size_t count, int64_t cols) {
  CHECK_EQ(cols % kTile, 0);
  CHECK_EQ(count % static_cast<size_t>(cols), 0u);
  if (form == Stored::kFp8Tiles) {
    return encode_tiles(values, static_cast<int64_t>(count) / cols, cols);
  }
  StoredMatrix out;
  out.scales.reserve(count / kTile);
  out.codes.reserve(count);
  uint8_t codes[kTile];
  for (size_t i = 0; i < count; i += kTile) {
    if (form == Stored::kFp8Rows) {
      out.scales.push_back(numeric::quantize_fp8_group(values + i, codes));
      out.codes.insert(out.codes.end(), codes, codes + kTile);
      continue;
    }
    CHECK(form == Stored::kFp4Rows);
    out.scales.push_back(numeric::quantize_mxfp4_group(values + i, codes));
    for (int64_t k = 0; k < kTile; k += 2) {
      out.codes.push_back(static_cast<uint8_t>(codes[k] | codes[k + 1] << 4));
    }
  }
  return out;
}

void decode(Stored form, const StoredMatrix& matrix, int64_t cols, std::span<float> out) {
  const int64_t groups = cols / kTile;
  const auto rows = static_cast<int64_t>(out.size()) / cols;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t scale_row = form == Stored::kFp8Tiles ? row / kTile : row;
    for (int64_t g = 0; g < groups; ++g) {
      const auto at = static_cast<size_t>(row * cols + g * kTile);
      const float scale =
          numeric::e8m0_to_float(matrix.scales[static_cast<size_t>(scale_row * groups + g)]);
      for (size_t i = at; i < at + kTile; ++i) {
        out[i] = scale * (form == Stored::kFp4Rows ? numeric::e2m1_to_float(static_cast<uint8_t>(
                                                         matrix.codes[i / 2] >> (i % 2 * 4)))
                                                   : numeric::e4m3_to_float(matrix.codes[i]));
      }
    }
  }
}

}  // namespace thimble::train::internal
