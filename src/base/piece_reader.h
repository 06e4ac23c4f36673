// A file, a FIFO or a device read in pieces, with memory for one piece at a time.
//
// Not thread-safe. A piece lies in the reader until the next call.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace thimble::base {

class PieceReader {
 public:
  // Pieces end where `delimiter` does, which belongs to none; empty: the whole file is one piece.
  // kResourceExhausted for a piece of more than `max_piece_bytes`.
  static Result<PieceReader> open(const Path& path, std::string delimiter,
                                  uint64_t max_piece_bytes = 1ULL << 30);

  // Nothing at the end. A file that ends with the delimiter has no empty piece behind it.
  Result<std::optional<std::string_view>> next();

 private:
  PieceReader(Path path, std::string delimiter, uint64_t max_piece_bytes, Descriptor file)
      : path_(std::move(path)),
        delimiter_(std::move(delimiter)),
        max_piece_bytes_(max_piece_bytes),
        file_(std::move(file)) {}
  Result<void> read_more();

  Path path_;
  std::string delimiter_;
  uint64_t max_piece_bytes_;
  Descriptor file_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not yet given
  bool ended_ = false;
};

}  // namespace thimble::base
