// Integer dots of packed FP4 codes in plain C++: the definition that the other instruction sets
// must equal.
//
// An integer half offers: Acc, 16 int32 lanes; the two sources of codes, packed and expanded; and
// dot(), which adds to each row's lanes the products of one group of 32 inputs with codes that are
// doubled and 12 larger (the caller's start value takes the 12s away). All is exact. HeldCodes are
// a group's in registers, 16 / kHalves lanes of them, for many rows of FP4 codes to pass by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/isa/simd_scalar.h"

namespace thimble::kernels::scalar {

struct Int {
  static constexpr const char* kName = "scalar";
  static constexpr uint32_t kRows = Vec::Tiles::kIntRows;
  // Doubled E2M1 values, 12 larger.
  static constexpr uint8_t kCodes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

  struct Acc {
    int32_t lane[16];
  };
  struct PackedCodes {
    const std::byte* at;
    // Byte 4 * output + j of piece `piece` (0 to 7).
    uint8_t code(uint32_t piece, uint32_t byte) const {
      const auto both = static_cast<uint8_t>(at[piece / 2 * 64 + byte]);
      return kCodes[piece % 2 == 0 ? both & 15 : both >> 4];
    }
  };
  struct ExpandedCodes {
    const std::byte* at;
    uint8_t code(uint32_t piece, uint32_t byte) const {
      return static_cast<uint8_t>(at[piece * 64 + byte]);
    }
  };

  static Acc set(int32_t value) {
    Acc acc;
    for (int32_t& lane : acc.lane) lane = value;
    return acc;
  }
  static Vec to_float(const Acc& acc) {
    Vec out;
    for (int i = 0; i < 16; ++i) out.lane[i] = static_cast<float>(acc.lane[i]);
    return out;
  }
  static void expand(const std::byte* packed, std::byte* out) {
    const PackedCodes codes{packed};
    for (uint32_t piece = 0; piece < 8; ++piece) {
      for (uint32_t i = 0; i < 64; ++i) out[piece * 64 + i] = std::byte{codes.code(piece, i)};
    }
  }
  // Of an MXFP4 tile: byte (4 * piece + j) * 8 + entry / 2 has the entry's code in its nibble.
  static void expand_tile(const std::byte* tile, uint32_t dims, std::byte* out) {
    for (uint32_t d = 0; d < dims; ++d) {
      for (uint32_t e = 0; e < 16; ++e) {
        const auto both = static_cast<uint8_t>(tile[d * 8 + e / 2]);
        out[d / 4 * 64 + e * 4 + d % 4] = std::byte{kCodes[e % 2 == 0 ? both & 15 : both >> 4]};
      }
    }
  }
  static constexpr uint32_t kHalves = 1;
  template <uint32_t kHalf>
  struct HeldCodes {
    ExpandedCodes codes;
    explicit HeldCodes(const std::byte* expanded) : codes{expanded} {}
    // lanes[i] += scale[i] * (x_scale * (start + products of x, 32 codes from -12 to 12)).
    void add_dot(const int8_t* x, int32_t start, float x_scale, const Vec& scale,
                 float* lanes) const {
      Acc acc[1] = {set(start)};
      const int8_t* const rows[1] = {x};
      dot(codes, rows, acc);
      fma(to_float(acc[0]) * Vec::set(x_scale), scale, Vec::load(lanes)).store(lanes);
    }
  };

  template <uint32_t kCount, class Codes>
  static void dot(const Codes& codes, const int8_t* const (&x)[kCount], Acc (&acc)[kCount]) {
    for (uint32_t piece = 0; piece < 8; ++piece) {
      for (uint32_t i = 0; i < 64; ++i) {
        const int32_t code = codes.code(piece, i);
        for (uint32_t r = 0; r < kCount; ++r) acc[r].lane[i / 4] += code * x[r][piece * 4 + i % 4];
      }
    }
  }
};

}  // namespace thimble::kernels::scalar
