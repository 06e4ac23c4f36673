// Weights laid out for speed: blocks of 16 outputs whose lanes lie side by side, so that one vector
// holds the same input of 16 outputs. Matrix-vector and matrix-matrix products then sum in one
// order, and a weight is streamed once, front to back.
//
// A block is [groups of 32 inputs], codes first, scales behind all codes:
//  - FP4: 256 bytes a group, four pieces of 64: byte 4 * output + j of piece p has input 8p + j in
//    its low nibble and input 8p + 4 + j in its high one; scales [groups, 16], one an output.
//  - FP8: 512 bytes a group, [16 pairs of inputs, 16 outputs, 2 inputs]; scales [groups], one for
//    the 16 outputs, NaN where any of the group's codes is.
// Outputs beyond the matrix are zeros. The layout is the same for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/view.h"
#include "numeric/packed_layout.h"

namespace thimble::kernels {

using numeric::kPackInputs;
using numeric::kPackOutputs;
using numeric::pack_blocks;

// FP4, or FP8 that begins at a multiple of 16 in its scale block; other matrices stay as they are.
bool packable(const WeightView& weight);

// Bytes of one block. REQUIRES: a packable format.
uint64_t pack_block_bytes(WeightFormat format, uint32_t inputs);
// Of the whole, alignment included.
uint64_t packed_bytes(const WeightView& weight);

// Blocks [begin, end), one behind the other. out: [end - begin, pack_block_bytes].
void pack_weight(const WeightView& weight, uint64_t begin, uint64_t end, std::byte* out);

// Code of (output, input) within a block, and the scale that goes with it: the inverse, for tests.
struct PackedCode {
  uint8_t code = 0;
  uint8_t scale = 0;
};
PackedCode packed_code(WeightFormat format, uint32_t inputs, const std::byte* block,
                       uint32_t output, uint32_t input);

}  // namespace thimble::kernels
