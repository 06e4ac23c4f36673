// Matrices in the block formats of the checkpoint: codes and power-of-two scales.
//
// Rows of length `cols`, a multiple of 32. FP8 tiles of 32x32 share a scale (rows of a stack of
// matrices are one long matrix: its parts must then have a multiple of 32 rows), FP8 rows and FP4
// rows one per 32 inputs. Backbone spec 2.2; the scale is the smallest power of two that does not
// clip. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/internal/weights.h"

namespace thimble::train::internal {

struct StoredMatrix {
  std::vector<uint8_t> codes;   // FP4: two a byte, the even column low
  std::vector<uint8_t> scales;  // E8M0
};

StoredMatrix encode(Stored form, const float* values, size_t count, int64_t cols);
void decode(Stored form, const StoredMatrix& matrix, int64_t cols, std::span<float> out);

}  // namespace thimble::train::internal
