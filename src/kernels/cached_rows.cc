// Cached rows to bytes and back, formats of paged_rows.h; sources: backbone spec section 7.
#include <cstring>

#include "base/check.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"
#include "numeric/block_fp8.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/kv_fp4.h"
#include "numeric/mxfp4.h"

namespace thimble::kernels {
namespace {

void write_window_row(std::span<const float> values, std::byte* row) {
  CHECK_EQ(values.size() % numeric::kFp8Group, 0u);
  std::byte* scales = row + values.size();
  for (size_t i = 0; i < values.size(); i += numeric::kFp8Group) {
    uint8_t codes[numeric::kFp8Group];
    *scales++ = std::byte{numeric::quantize_fp8_group(&values[i], codes)};
    std::memcpy(row + i, codes, sizeof(codes));
  }
}

void write_main_row(std::span<const float> values, std::byte* row) {
  CHECK_EQ(values.size() % numeric::kKvFp4Group, 0u);
  std::byte* scales = row + values.size() / 2;
  for (size_t i = 0; i < values.size(); i += numeric::kKvFp4Group) {
    uint8_t codes[numeric::kKvFp4Group];
    *scales++ = std::byte{numeric::quantize_kv_fp4_group(&values[i], codes)};
    for (uint32_t d = 0; d < numeric::kKvFp4Group; d += 2) {
      row[(i + d) / 2] = static_cast<std::byte>(codes[d] | (codes[d + 1] << 4));
    }
  }
}

// Byte offsets inside an MXFP4 tile; the code of an odd slot is the high nibble.
size_t code_offset(size_t dim, uint32_t slot) { return dim * (kTileRows / 2) + slot / 2; }

size_t scale_offset(size_t dims, size_t dim, uint32_t slot) {
  return dims * (kTileRows / 2) + dim / numeric::kMxfp4Group * kTileRows + slot;
}

}  // namespace

void write_row(RowFormat format, std::span<const float> values, std::byte* row) {
  switch (format) {
    case RowFormat::kFloat:
      std::memcpy(row, values.data(), values.size_bytes());
      return;
    case RowFormat::kWindowFp8:
      return write_window_row(values, row);
    case RowFormat::kMainFp4:
      return write_main_row(values, row);
  }
}

void read_row(RowFormat format, const std::byte* row, std::span<float> values) {
  if (format == RowFormat::kWindowFp8) CHECK_EQ(values.size() % numeric::kFp8Group, 0u);
  if (format == RowFormat::kMainFp4) CHECK_EQ(values.size() % numeric::kKvFp4Group, 0u);
  kernels().decode_row(format, row, static_cast<uint32_t>(values.size()), values.data());
}

void write_tile_entry(TileFormat format, std::span<const float> values, std::byte* tile,
                      uint32_t slot) {
  CHECK_LT(slot, kTileRows);
  if (format == TileFormat::kFloat) {
    for (size_t d = 0; d < values.size(); ++d) {
      std::memcpy(tile + (d * kTileRows + slot) * sizeof(float), &values[d], sizeof(float));
    }
    return;
  }
  CHECK_EQ(values.size() % numeric::kMxfp4Group, 0u);
  const uint32_t shift = 4 * (slot % 2);
  for (size_t i = 0; i < values.size(); i += numeric::kMxfp4Group) {
    uint8_t codes[numeric::kMxfp4Group];
    const uint8_t scale = numeric::quantize_mxfp4_group(&values[i], codes);
    tile[scale_offset(values.size(), i, slot)] = std::byte{scale};
    for (uint32_t d = 0; d < numeric::kMxfp4Group; ++d) {
      std::byte& byte = tile[code_offset(i + d, slot)];
      byte = (byte & (std::byte{0xF0} >> shift)) | (std::byte{codes[d]} << shift);
    }
  }
}

void read_tile_entry(TileFormat format, const std::byte* tile, uint32_t slot,
                     std::span<float> values) {
  CHECK_LT(slot, kTileRows);
  if (format == TileFormat::kFloat) {
    for (size_t d = 0; d < values.size(); ++d) {
      std::memcpy(&values[d], tile + (d * kTileRows + slot) * sizeof(float), sizeof(float));
    }
    return;
  }
  CHECK_EQ(values.size() % numeric::kMxfp4Group, 0u);
  for (size_t d = 0; d < values.size(); ++d) {
    const std::byte code = tile[code_offset(d, slot)] >> (4 * (slot % 2)) & std::byte{15};
    const std::byte scale = tile[scale_offset(values.size(), d, slot)];
    values[d] = numeric::e2m1_to_float(static_cast<uint8_t>(code)) *
                numeric::e8m0_to_float(static_cast<uint8_t>(scale));
  }
}

void round_mxfp4(std::span<float> x) { numeric::round_mxfp4(x.data(), x.size()); }

}  // namespace thimble::kernels
