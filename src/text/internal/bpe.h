// Byte-pair merging of one piece of text by rank.
//
// Starting from single bytes, the adjacent pair of lowest rank (leftmost among equals) is replaced
// by its result until no pair has a rank (spec/chat-format.md 1.1). Two routes give that result:
// pieces that merge into exactly one token are found in a table, the rest are merged, with a plain
// scan for the minimum when short and a heap when long, so that no piece costs more than
// bytes x log(bytes). Immutable after create(); any thread, each with its own Scratch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace thimble::text {

enum class TokenKind : uint8_t {
  kBytes,    // Spelled in the byte alphabet; takes part in merging.
  kLiteral,  // In the vocabulary, but outside the byte alphabet: decodes as spelled, never
             // produced.
  kAdded,    // Matched in text by its content.
};

struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;  // Its bytes are those of left, then right. Rank is the index in the list.
};

class Bpe {
 public:
  class Scratch {
   private:
    friend class Bpe;
    std::vector<int32_t> ids_;     // Symbols of the piece.
    std::vector<uint32_t> ranks_;  // Of symbol i and its successor.
    std::vector<uint32_t> next_;
    std::vector<uint32_t> previous_;
    std::vector<uint64_t> heap_;  // rank << 32 | position, smallest first.
  };

  // Bytes and kind of every id. Both are viewed, not copied: they must outlive this object and not
  // move. Fails if a byte has no token or a pair is listed twice.
  static Result<Bpe> create(std::span<const std::string> token_bytes,
                            std::span<const TokenKind> kinds, std::span<const Merge> merges);

  // Appends the ids of one piece, any bytes. REQUIRES: not empty, less than 2 GiB.
  void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

  // The token that spells exactly these bytes, merged or not.
  std::optional<int32_t> find(std::string_view bytes) const;

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Pair {
    int32_t left = -1;  // -1: empty slot.
    int32_t right = 0;
    uint32_t rank = kNoRank;
    int32_t result = 0;
  };
  struct Ranked {
    uint32_t rank = kNoRank;
    int32_t result = 0;
  };
  struct Word {
    uint32_t hash = 0;
    int32_t id = -1;  // -1: empty slot.
  };

  Bpe() = default;
  Result<void> insert_bytes_and_words();
  Result<void> insert_merges(std::span<const Merge> merges);
  void mark_whole_words();

  Ranked lookup(int32_t left, int32_t right) const;
  const Word* find_word(std::string_view bytes) const;
  void merge_short(Scratch& scratch, size_t count, std::vector<int32_t>& out) const;
  void merge_long(Scratch& scratch, size_t count, std::vector<int32_t>& out) const;
  void merge(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

  std::span<const std::string> token_bytes_;
  std::span<const TokenKind> kinds_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<uint32_t> byte_ranks_;  // [256 left byte, 256 right byte]
  std::vector<Pair> pairs_;  // Open addressing, a power of two of slots, at most half full.
  std::vector<Word> words_;  // Likewise.
  std::vector<bool> whole_;  // [ids] The token's bytes merge into the token itself.
  size_t longest_token_ = 0;
};

}  // namespace thimble::text
