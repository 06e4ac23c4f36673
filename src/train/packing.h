// Documents into rows of equal length: cut, shuffled, packed best fit first (training spec 13).
//
// Pure functions of lengths and seed: two runs, and a run that resumes, see the same rows in the
// same order. Documents longer than a row are cut into full rows and a tail before anything is
// shuffled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thimble::train {

struct Piece {
  uint32_t document = 0;
  uint32_t begin = 0;  // tokens [begin, end) of the document
  uint32_t end = 0;
};

using Row = std::vector<Piece>;  // at most row_tokens tokens together

struct Packing {
  std::vector<Row> rows;
  uint64_t tokens = 0;
  double padding = 0;  // share of the rows' room that stays empty
};

struct PackOptions {
  uint32_t row_tokens = 512;
  uint64_t seed = 1;
  uint32_t epoch = 0;
  size_t buffer_pieces = 200'000;  // sorted together; larger packs tighter
};

// lengths [documents]; empty documents are left out.
Packing pack_rows(std::span<const uint32_t> lengths, const PackOptions& options);

}  // namespace thimble::train
