#include "kernels/packed.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace thimble::kernels {
namespace {

constexpr uint32_t kFp4GroupBytes = kPackInputs * kPackOutputs / 2;
constexpr uint32_t kFp8GroupBytes = kPackInputs * kPackOutputs;

// Nibble of (output, input within the group): its byte in the group, and its shift.
constexpr uint32_t fp4_byte(uint32_t output, uint32_t input) {
  return input / 8 * 64 + output * 4 + input % 4;
}
constexpr uint32_t fp4_shift(uint32_t input) { return input % 8 / 4 * 4; }

// Byte of (output, input) in a block of FP8.
constexpr uint64_t fp8_byte(uint32_t output, uint32_t input) {
  return uint64_t{input / 2} * (2 * kPackOutputs) + output * 2 + input % 2;
}

// Eight codes of one output, as a row has them, to the order of a piece: 0 4 1 5 2 6 3 7.
constexpr uint32_t piece_of(uint32_t codes) {
  uint32_t low = codes & 0xFFFF;
  uint32_t high = codes >> 16;
  low = (low | low << 8) & 0x00FF00FF;
  high = (high | high << 8) & 0x00FF00FF;
  low = (low | low << 4) & 0x0F0F0F0F;
  high = (high | high << 4) & 0x0F0F0F0F;
  return low | high << 4;
}

void pack_fp4(const WeightView& w, uint32_t first, uint32_t outputs, std::byte* out) {
  const uint32_t groups = w.cols / kPackInputs;
  std::byte* const scales = out + uint64_t{groups} * kFp4GroupBytes;
  for (uint32_t g = 0; g < groups; ++g) {
    uint32_t pieces[4][kPackOutputs] = {};
    for (uint32_t o = 0; o < outputs; ++o) {
      const uint64_t row = uint64_t{first} + o;
      uint32_t codes[4];
      std::memcpy(codes, w.codes + row * (w.cols / 2) + uint64_t{g} * (kPackInputs / 2), 16);
      for (uint32_t p = 0; p < 4; ++p) pieces[p][o] = codes[p];
      scales[uint64_t{g} * kPackOutputs + o] = w.scales[row * groups + g];
    }
    for (auto& piece : pieces) {
      for (uint32_t& codes : piece) codes = piece_of(codes);
    }
    std::memcpy(out + uint64_t{g} * kFp4GroupBytes, pieces, kFp4GroupBytes);
  }
}

using Bytes16 = uint8_t __attribute__((vector_size(16)));

// a and b, a byte of each by turns.
void deal_out(Bytes16 a, Bytes16 b, Bytes16* out) {
  out[0] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  out[1] =
      __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

// Rows to columns: each step deals two halves out, which moves the address of a byte, row and
// column in eight bits, round by one. Then columns to pairs of them.
void transpose_pairs(Bytes16 (&rows)[16]) {
  for (int step = 0; step < 4; ++step) {
    Bytes16 next[16];
    for (int i = 0; i < 8; ++i) deal_out(rows[i], rows[i + 8], &next[2 * i]);
    std::memcpy(rows, next, sizeof(next));
  }
  for (int i = 0; i < 16; i += 2) deal_out(rows[i], rows[i + 1], &rows[i]);
}

bool has_nan(const Bytes16 (&codes)[16]) {
  Bytes16 found = {};
  for (const Bytes16& c : codes) found |= (c & 0x7F) == 0x7F;
  uint64_t halves[2];
  std::memcpy(halves, &found, sizeof(halves));
  return (halves[0] | halves[1]) != 0;
}

// A group that holds a NaN becomes NaN as a whole: products need not look for it then.
void pack_fp8(const WeightView& w, uint32_t first, uint32_t outputs, std::byte* out) {
  const uint32_t groups = w.cols / kPackInputs;
  std::byte* const scales = out + uint64_t{groups} * kFp8GroupBytes;
  const uint64_t scale_row = (uint64_t{w.block_row} + first) / 32;
  std::memcpy(scales, w.scales + scale_row * groups, groups);
  const std::byte* const codes = w.codes + uint64_t{first} * w.cols;
  for (uint32_t k = 0; k < w.cols; k += 16) {
    Bytes16 rows[kPackOutputs] = {};
    for (uint32_t o = 0; o < outputs; ++o) {
      std::memcpy(&rows[o], codes + uint64_t{o} * w.cols + k, sizeof(Bytes16));
    }
    if (has_nan(rows)) scales[k / kPackInputs] = std::byte{0xFF};
    transpose_pairs(rows);
    std::memcpy(out + uint64_t{k} * kPackOutputs, rows, sizeof(rows));
  }
}

numeric::PackedFormat packed_format(WeightFormat format) {
  if (format == WeightFormat::kFp4Group32) return numeric::PackedFormat::kFp4;
  CHECK(format == WeightFormat::kFp8Block32);
  return numeric::PackedFormat::kFp8;
}

}  // namespace

bool packable(const WeightView& weight) {
  if (weight.format == WeightFormat::kFp4Group32) return true;
  return weight.format == WeightFormat::kFp8Block32 && weight.block_row % kPackOutputs == 0;
}

uint64_t pack_block_bytes(WeightFormat format, uint32_t inputs) {
  return numeric::pack_block_bytes(packed_format(format), inputs);
}

uint64_t packed_bytes(const WeightView& weight) {
  return numeric::packed_bytes(packed_format(weight.format), weight.rows, weight.cols);
}

void pack_weight(const WeightView& weight, uint64_t begin, uint64_t end, std::byte* out) {
  const uint64_t block_bytes = pack_block_bytes(weight.format, weight.cols);
  for (uint64_t block = begin; block < end; ++block, out += block_bytes) {
    const auto first = static_cast<uint32_t>(block * kPackOutputs);
    const uint32_t outputs = std::min(kPackOutputs, weight.rows - first);
    std::memset(out, 0, block_bytes);
    if (weight.format == WeightFormat::kFp4Group32) {
      pack_fp4(weight, first, outputs, out);
    } else {
      pack_fp8(weight, first, outputs, out);
    }
  }
}

PackedCode packed_code(WeightFormat format, uint32_t inputs, const std::byte* block,
                       uint32_t output, uint32_t input) {
  const uint64_t groups = inputs / kPackInputs;
  const uint64_t g = input / kPackInputs;
  if (format == WeightFormat::kFp8Block32) {
    return {static_cast<uint8_t>(block[fp8_byte(output, input)]),
            static_cast<uint8_t>(block[groups * kFp8GroupBytes + g])};
  }
  const uint32_t k = input % kPackInputs;
  const auto byte = static_cast<uint8_t>(block[g * kFp4GroupBytes + fp4_byte(output, k)]);
  const std::byte* const scales = block + groups * kFp4GroupBytes;
  return {static_cast<uint8_t>((byte >> fp4_shift(k)) & 15),
          static_cast<uint8_t>(scales[g * kPackOutputs + output])};
}

}  // namespace thimble::kernels
