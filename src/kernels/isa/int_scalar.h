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

#include "kernels/internal/table_entries.h"
#include "kernels/isa/simd_scalar.h"
#include "numeric/e8m0.h"

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

  static bool level_tile(const std::byte* tile, uint32_t dims, const LevelQuery& q, LevelTile out) {
    const std::byte* const scales = tile + uint64_t{dims} * 8;
    expand_tile(tile, dims, out.codes);
    for (uint32_t e = 0; e < 16; ++e) {
      uint8_t least = 255;
      uint8_t most = 0;
      for (uint32_t g = 0; g < dims / 32; ++g) {
        const auto scale = static_cast<uint8_t>(scales[g * 16 + e]);
        if (scale < least) least = scale;
        if (scale > most) most = scale;
      }
      if (most - least > static_cast<int>(kLevelShift)) return false;
      if (least < q.low || least > q.high) return false;
      int32_t sum = 0;
      for (uint32_t d = 0; d < dims; ++d) {
        std::byte& code = out.codes[d / 4 * 64 + e * 4 + d % 4];
        const int shift = static_cast<int>(scales[d / 32 * 16 + e]) - least;
        const int level = (static_cast<int>(code) - 12) * (1 << shift);
        code = static_cast<std::byte>(level);
        sum += level;
      }
      out.start[e] = -128 * sum;
      out.scales[e] = numeric::e8m0_to_float(least);
    }
    return true;
  }
  static Acc load(const int32_t* from) {
    Acc acc;
    std::memcpy(acc.lane, from, sizeof(acc.lane));
    return acc;
  }
  using Piece = const std::byte*;
  static Piece load_piece(const std::byte* at) { return at; }
  // acc[t] += products of four dimensions: unsigned codes of the query, signed ones of a piece.
  template <uint32_t kTiles>
  static void add(Acc (&acc)[kTiles], const uint8_t* q, const Piece (&piece)[kTiles]) {
    for (uint32_t t = 0; t < kTiles; ++t) {
      for (uint32_t i = 0; i < 64; ++i) {
        acc[t].lane[i / 4] += q[i % 4] * static_cast<int8_t>(piece[t][i]);
      }
    }
  }

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
