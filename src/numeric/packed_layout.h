// The sizes of weights laid out for speed: blocks of 16 outputs by groups of 32 inputs.
//
// kernels/packed.h lays them, arch/weight_table.h counts them; both ask here.
#pragma once

#include <cstdint>

namespace thimble::numeric {

inline constexpr uint32_t kPackOutputs = 16;
inline constexpr uint32_t kPackInputs = 32;
inline constexpr uint64_t kPackAlignment = 64;  // of a block: a vector of codes is one cache line

enum class PackedFormat { kFp4, kFp8 };

// Of one block: codes, then scales (one an output and group for FP4, one a group for FP8), then
// what aligns the next one.
constexpr uint64_t pack_block_bytes(PackedFormat format, uint64_t inputs) {
  const uint64_t groups = inputs / kPackInputs;
  constexpr uint64_t kValues = uint64_t{kPackInputs} * kPackOutputs;
  const uint64_t bytes =
      format == PackedFormat::kFp4 ? groups * (kValues / 2 + kPackOutputs) : groups * (kValues + 1);
  return (bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}

constexpr uint64_t pack_blocks(uint64_t outputs) {
  return (outputs + kPackOutputs - 1) / kPackOutputs;
}

// Of a matrix.
constexpr uint64_t packed_bytes(PackedFormat format, uint64_t outputs, uint64_t inputs) {
  return pack_blocks(outputs) * pack_block_bytes(format, inputs);
}

}  // namespace thimble::numeric
