// Plain views of matrices and weights: pointers and shapes, no ownership.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thimble::kernels {

// Rows of equal width with a stride, outermost first: [rows, cols].
template <class T>
struct Rows {
  T* data = nullptr;
  uint64_t rows = 0;
  uint64_t cols = 0;
  uint64_t stride = 0;  // elements from one row to the next, at least cols

  Rows() = default;
  Rows(T* d, uint64_t r, uint64_t c) : data(d), rows(r), cols(c), stride(c) {}
  Rows(T* d, uint64_t r, uint64_t c, uint64_t s) : data(d), rows(r), cols(c), stride(s) {}
  // Rows<float> reads as Rows<const float>.
  operator Rows<const T>() const { return {data, rows, cols, stride}; }  // NOLINT

  T* row(uint64_t i) const { return data + i * stride; }
  // Columns [begin, begin + count) of every row.
  Rows columns(uint64_t begin, uint64_t count) const { return {data + begin, rows, count, stride}; }
  Rows slice(uint64_t begin, uint64_t count) const { return {row(begin), count, cols, stride}; }
};

enum class WeightFormat : uint8_t {
  kF32,
  kBF16,
  kFp8Block32,  // E4M3 codes, one E8M0 scale per 32x32 block: scales [ceil(rows/32), cols/32]
  kFp4Group32,  // E2M1 codes, even column in the low nibble; E8M0 scales [rows, cols/32]
};

// How a product is computed. kFast: FP4 weights meet activations rounded to int8 in groups of 32,
// FP8 weights meet float32 ones in another order; the other formats know no difference.
enum class Arithmetic : uint8_t { kExact, kFast };

// A weight matrix as the checkpoint stores it: [rows = outputs, cols = inputs]. Any alignment.
struct WeightView {
  WeightFormat format = WeightFormat::kF32;
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;  // null for kF32 and kBF16
  uint32_t rows = 0;
  uint32_t cols = 0;
  uint32_t block_row = 0;  // row 0's place in its 32-row block: a slice may begin inside one
  Arithmetic arithmetic = Arithmetic::kExact;
  // The same weights as kernels/packed.h lays them, or null: then kFast packs them as it goes, to
  // the same bits.
  const std::byte* packed = nullptr;

  // Outputs [begin, begin + count).
  WeightView outputs(uint32_t begin, uint32_t count) const;
  // As stored, whole blocks of scales: of a matrix that begins with block row 0.
  uint64_t code_bytes() const;
  uint64_t scale_bytes() const;
};

}  // namespace thimble::kernels
