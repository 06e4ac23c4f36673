// Aim: both ways of merging, and the table of whole tokens, give the ids of the definition.
// Method: random vocabularies and pieces against a loop that applies the definition literally.
#include "text/internal/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "base/random.h"

namespace thimble::text {
namespace {

struct Model {
  std::vector<std::string> bytes;
  std::vector<TokenKind> kinds;
  std::vector<Merge> merges;
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;

  Model() : bytes(256), kinds(256, TokenKind::kBytes) {
    for (int byte = 0; byte < 256; ++byte) bytes[byte] = std::string(1, static_cast<char>(byte));
  }

  int32_t id_of(const std::string& text) {
    const auto found = std::find(bytes.begin(), bytes.end(), text);
    if (found != bytes.end()) return static_cast<int32_t>(found - bytes.begin());
    bytes.push_back(text);
    kinds.push_back(TokenKind::kBytes);
    return static_cast<int32_t>(bytes.size() - 1);
  }

  void add_merge(int32_t left, int32_t right) {
    if (ranks.contains({left, right})) return;
    ranks[{left, right}] = merges.size();
    merges.push_back({left, right, id_of(bytes[left] + bytes[right])});
  }

  std::vector<int32_t> by_definition(std::string_view piece) const {
    std::vector<int32_t> ids;
    for (const char c : piece) ids.push_back(static_cast<uint8_t>(c));
    while (true) {
      size_t best = SIZE_MAX;
      size_t best_rank = SIZE_MAX;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = ranks.find({ids[i], ids[i + 1]});
        if (found != ranks.end() && found->second < best_rank) {
          best = i;
          best_rank = found->second;
        }
      }
      if (best == SIZE_MAX) return ids;
      ids[best] = merges[best_rank].result;
      ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
  }
};

std::vector<int32_t> encode(const Bpe& bpe, std::string_view piece) {
  Bpe::Scratch scratch;
  std::vector<int32_t> ids;
  bpe.encode(piece, scratch, ids);
  return ids;
}

TEST(Bpe, EqualsTheDefinition) {
  base::SplitMix64 random(11);
  for (int round = 0; round < 60; ++round) {
    Model model;
    const uint64_t letters = 2 + random.below(3);
    std::vector<int32_t> symbols;
    for (uint64_t i = 0; i < letters; ++i) symbols.push_back(static_cast<int32_t>('a' + i));
    for (uint64_t i = 0; i < 5 + random.below(60); ++i) {
      model.add_merge(symbols[random.below(symbols.size())], symbols[random.below(symbols.size())]);
      symbols.push_back(model.merges.back().result);
    }
    const auto bpe = Bpe::create(model.bytes, model.kinds, model.merges);
    ASSERT_TRUE(bpe);
    for (int text = 0; text < 200; ++text) {
      std::string piece;
      const uint64_t length = 1 + random.below(text % 4 == 0 ? 200 : 20);
      while (piece.size() < length) piece += static_cast<char>('a' + random.below(letters));
      ASSERT_EQ(encode(*bpe, piece), model.by_definition(piece)) << piece;
    }
    for (const std::string& token : model.bytes) {
      ASSERT_EQ(encode(*bpe, token), model.by_definition(token));
    }
  }
}

TEST(Bpe, TokenThatItsOwnBytesDoNotReachIsNotUsed) {
  Model model;
  model.add_merge('b', 'c');  // Applies first,
  const int32_t ab = model.id_of("ab");
  model.add_merge('a', 'b');
  model.add_merge(ab, 'c');  // so that "ab" never meets 'c'.
  const auto bpe = Bpe::create(model.bytes, model.kinds, model.merges);
  ASSERT_TRUE(bpe);
  EXPECT_THAT(encode(*bpe, "abc"), testing::ElementsAre('a', model.id_of("bc")));
  EXPECT_EQ(bpe->find("abc"), model.id_of("abc"));
  EXPECT_EQ(bpe->find("abcd"), std::nullopt);
}

TEST(Bpe, ByteWithoutATokenIsNamed) {
  Model model;
  model.kinds[0x20] = TokenKind::kAdded;
  const auto bpe = Bpe::create(model.bytes, model.kinds, model.merges);
  ASSERT_FALSE(bpe);
  EXPECT_THAT(bpe.error().message, testing::HasSubstr("no token for byte 32 (\"Ġ\")"));
}

TEST(Bpe, PairListedTwiceIsRefused) {
  Model model;
  model.add_merge('a', 'b');
  model.merges.push_back(model.merges[0]);
  const auto bpe = Bpe::create(model.bytes, model.kinds, model.merges);
  ASSERT_FALSE(bpe);
  EXPECT_THAT(bpe.error().message, testing::HasSubstr("merges[1]"));
}

// A piece of a megabyte without a place to split; anything quadratic would take hours.
TEST(Bpe, LongPieceIsNotQuadratic) {
  base::SplitMix64 random(3);
  Model model;
  std::vector<int32_t> symbols = {'a', 'b', 'c', 'd'};
  for (int i = 0; i < 200; ++i) {
    model.add_merge(symbols[random.below(symbols.size())], symbols[random.below(symbols.size())]);
    symbols.push_back(model.merges.back().result);
  }
  const auto bpe = Bpe::create(model.bytes, model.kinds, model.merges);
  ASSERT_TRUE(bpe);
  std::string piece;
  while (piece.size() < (1 << 20)) piece += static_cast<char>('a' + random.below(4));
  const auto begin = std::chrono::steady_clock::now();
  const auto ids = encode(*bpe, piece);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), 20.0);
  std::string decoded;
  for (const int32_t id : ids) decoded += model.bytes[static_cast<size_t>(id)];
  EXPECT_EQ(decoded, piece);
}

}  // namespace
}  // namespace thimble::text
