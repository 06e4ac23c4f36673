// What the cache compares: token ids, and marks for contents that ids do not tell apart.
//
// Every position of an image has the same id, so an image's first position carries a mark: 16 bytes
// that identify its pixels. Two texts agree up to the first position where ids or marks differ.
// Positions are absolute everywhere: a piece of a sequence knows where it begins. Values; a
// TokenView borrows and lives as long as what it was made from.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thimble::cache {

struct ContentMark {
  uint64_t position = 0;  // first position of the content
  std::array<std::byte, 16> identity{};
  auto operator<=>(const ContentMark&) const = default;
};

// Tokens [begin, end()) of a sequence.
struct TokenView {
  TokenView() = default;
  TokenView(std::span<const int32_t> tokens, std::span<const ContentMark> contents = {},
            uint64_t first = 0)
      : ids(tokens), marks(contents), begin(first) {}
  TokenView(const std::vector<int32_t>& tokens) : ids(tokens) {}  // implicit, as for a span

  std::span<const int32_t> ids;        // [size()]
  std::span<const ContentMark> marks;  // ascending positions, all within [begin, end())
  uint64_t begin = 0;

  uint64_t size() const { return ids.size(); }
  uint64_t end() const { return begin + ids.size(); }
  // Tokens [from, to). REQUIRES: begin <= from <= to <= end().
  TokenView slice(uint64_t from, uint64_t to) const;
};

struct Comparison {
  uint64_t common = 0;  // tokens at the start that are the same
  std::strong_ordering order = std::strong_ordering::equal;  // by the next token; a prefix is less
};

// Token by token: by id, then by mark. REQUIRES: a.begin == b.begin.
Comparison compare(const TokenView& a, const TokenView& b);

// Tokens that are owned, growing at the end.
class TokenLog {
 public:
  explicit TokenLog(uint64_t begin = 0) : begin_(begin) {}
  explicit TokenLog(const TokenView& tokens);

  // REQUIRES: tokens.begin == end().
  void append(const TokenView& tokens);
  // Forgets tokens from position `end` on. REQUIRES: begin <= end <= end().
  void truncate(uint64_t end);

  TokenView view() const { return {ids_, marks_, begin_}; }
  uint64_t end() const { return begin_ + ids_.size(); }
  // Memory that the contents take.
  uint64_t bytes() const {
    return ids_.size() * sizeof(int32_t) + marks_.size() * sizeof(ContentMark);
  }

 private:
  uint64_t begin_ = 0;
  std::vector<int32_t> ids_;
  std::vector<ContentMark> marks_;
};

}  // namespace thimble::cache
