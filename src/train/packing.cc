#include "train/packing.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/random.h"

namespace thimble::train {
namespace {

// Order by a keyed hash: what a list's element is, not where it was, decides where it goes.
template <class T, class Key>
void hash_order(std::vector<T>& list, uint64_t seed, Key key) {
  const auto hash = [&](const T& x) { return base::mix64(seed ^ base::mix64(key(x) + 1)); };
  std::stable_sort(list.begin(), list.end(),
                   [&](const T& a, const T& b) { return hash(a) < hash(b); });
}

std::vector<Piece> cut(std::span<const uint32_t> lengths, uint32_t row_tokens) {
  std::vector<Piece> out;
  for (uint32_t d = 0; d < lengths.size(); ++d) {
    for (uint32_t at = 0; at < lengths[d]; at += row_tokens) {
      out.push_back({d, at, std::min(lengths[d], at + row_tokens)});
    }
  }
  return out;
}

// Best-fit decreasing: the open row with the least room that suffices.
void pack_buffer(std::span<Piece> pieces, uint32_t row_tokens, std::vector<Row>& rows) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.end - a.begin > b.end - b.begin;
  });
  std::multimap<uint32_t, size_t> room;  // free tokens to row
  for (const Piece& piece : pieces) {
    const uint32_t length = piece.end - piece.begin;
    auto best = room.lower_bound(length);
    size_t row = rows.size();
    uint32_t free = row_tokens;
    if (best != room.end()) {
      row = best->second;
      free = best->first;
      room.erase(best);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(piece);
    if (free > length) room.emplace(free - length, row);
  }
}

}  // namespace

Packing pack_rows(std::span<const uint32_t> lengths, const PackOptions& options) {
  CHECK(options.row_tokens > 0 && options.buffer_pieces > 0);
  const uint64_t seed = base::mix64(options.seed + 0x9E3779B97F4A7C15ULL * (options.epoch + 1));
  std::vector<Piece> pieces = cut(lengths, options.row_tokens);
  const auto name = [](const Piece& p) {
    return base::mix64((static_cast<uint64_t>(p.document) << 32) | p.begin);
  };
  hash_order(pieces, seed, name);
  Packing out;
  for (size_t begin = 0; begin < pieces.size(); begin += options.buffer_pieces) {
    const size_t count = std::min(options.buffer_pieces, pieces.size() - begin);
    pack_buffer({pieces.data() + begin, count}, options.row_tokens, out.rows);
  }
  // Sorting put the long ones first: shuffle inside the rows and the rows themselves.
  for (Row& row : out.rows) hash_order(row, seed + 1, name);
  hash_order(out.rows, seed + 2, [&](const Row& row) { return name(row.front()); });
  for (const Piece& p : pieces) out.tokens += p.end - p.begin;
  if (!out.rows.empty()) {
    const double room = static_cast<double>(out.rows.size()) * options.row_tokens;
    out.padding = 1 - static_cast<double>(out.tokens) / room;
  }
  return out;
}

}  // namespace thimble::train
