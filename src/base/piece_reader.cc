#include "base/piece_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace thimble::base {
namespace {

constexpr size_t kReadBytes = 1 << 20;

}  // namespace

Result<PieceReader> PieceReader::open(const Path& path, std::string delimiter,
                                      uint64_t max_piece_bytes) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return system_error(path, "open");
  return PieceReader(path, std::move(delimiter), max_piece_bytes, std::move(file));
}

Result<void> PieceReader::read_more() {
  buffer_.erase(0, std::exchange(begin_, 0));
  const size_t had = buffer_.size();
  // Doubled, so that a long piece is not moved at every read.
  buffer_.resize(had + std::max(kReadBytes, had));
  ssize_t got = 0;
  do {
    got = ::read(file_.get(), buffer_.data() + had, buffer_.size() - had);
  } while (got < 0 && errno == EINTR);
  buffer_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return system_error(path_, "read");
  ended_ = got == 0;
  return {};
}

Result<std::optional<std::string_view>> PieceReader::next() {
  size_t searched = begin_;
  for (;;) {
    const size_t end = delimiter_.empty() ? std::string::npos : buffer_.find(delimiter_, searched);
    const size_t length = std::min(end, buffer_.size()) - begin_;
    if (length > max_piece_bytes_) {
      return fail(ErrorCode::kResourceExhausted,
                  "{}: a piece of more than {} bytes; at most so many are held at once",
                  path_.string(), max_piece_bytes_);
    }
    if (end != std::string::npos || (ended_ && length > 0)) {
      const std::string_view piece(buffer_.data() + begin_, length);
      begin_ += length + (end != std::string::npos ? delimiter_.size() : 0);
      return piece;
    }
    if (ended_) return std::nullopt;
    // The delimiter may lie across what was read and what comes.
    const size_t known = length - std::min(length, delimiter_.size());
    THIMBLE_TRY(read_more());
    searched = known;
  }
}

}  // namespace thimble::base
