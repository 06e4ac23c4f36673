// Cached rows and tiles to float32, formats of paged_rows.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/internal/table_entries.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"

namespace thimble::kernels::generic {

template <class V>
void decode_fp8(const std::byte* codes, const std::byte* scales, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; i += 32) {
    const V scale = V::set(numeric::e8m0_to_float(static_cast<uint8_t>(scales[i / 32])));
    (V::load_e4m3(codes + i) * scale).store(out + i);
    (V::load_e4m3(codes + i + 16) * scale).store(out + i + 16);
  }
}

template <class V>
void decode_kv_fp4(const std::byte* codes, const std::byte* scales, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; i += 16) {
    const V scale = V::set(numeric::e4m3_to_float(static_cast<uint8_t>(scales[i / 16])));
    (V::load_e2m1(codes + i / 2) * scale).store(out + i);
  }
}

template <class V>
void decode_row(RowFormat format, const std::byte* row, uint32_t dims, float* out) {
  switch (format) {
    case RowFormat::kFloat:
      std::memcpy(out, row, uint64_t{dims} * sizeof(float));
      return;
    case RowFormat::kWindowFp8:
      return decode_fp8<V>(row, row + dims, dims, out);
    case RowFormat::kMainFp4:
      return decode_kv_fp4<V>(row, row + dims / 2, dims, out);
  }
}

template <class V>
void decode_tile(TileFormat format, const std::byte* tile, uint32_t dims, float* out) {
  if (format == TileFormat::kFloat) {
    std::memcpy(out, tile, uint64_t{dims} * kTileRows * sizeof(float));
    return;
  }
  const std::byte* scales = tile + uint64_t{dims} * (kTileRows / 2);
  for (uint32_t d = 0; d < dims; ++d) {
    const V scale = V::load_e8m0(scales + (d / 32) * kTileRows);
    (V::load_e2m1(tile + d * (kTileRows / 2)) * scale).store(out + d * kTileRows);
  }
}

}  // namespace thimble::kernels::generic
