// Aim: the trained vocabulary holds the most frequent pairs in order, and the file is one that the
// tokenizer reads. Method: small texts whose merges are known by counting by hand; a slow trainer
// that recounts everything after each merge, on random words.
#include "text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "text/byte_tokenizer.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace thimble::text {
namespace {

Tokenizer train(std::string_view text, int32_t merges) {
  auto trainer = BpeTrainer::create();
  EXPECT_TRUE(trainer.has_value());
  trainer->add(text);
  auto tokenizer = Tokenizer::parse(trainer->finish(byte_tokenizer_size() + merges));
  EXPECT_TRUE(tokenizer.has_value());
  return std::move(*tokenizer);
}

TEST(BpeTrainer, MergesTheMostFrequentFirst) {
  // " ab" x4, " abc" x2: "ab" or " a" occurs 6 times; the smaller pair (space, a) wins the tie.
  const Tokenizer t = train(" ab ab ab ab abc abc", 3);
  EXPECT_EQ(t.size(), static_cast<uint32_t>(byte_tokenizer_size() + 3));
  EXPECT_EQ(t.token_bytes(259), " a");
  EXPECT_EQ(t.token_bytes(260), " ab");
  EXPECT_EQ(t.token_bytes(261), " abc");
  EXPECT_EQ(t.encode(" abc", AddedTokens::kPlain), std::vector<int32_t>{261});
  EXPECT_TRUE(resolve_chat_tokens(t).has_value());
}

TEST(BpeTrainer, StopsWhereNothingRepeats) {
  const Tokenizer t = train("q", 100);
  EXPECT_EQ(t.size(), static_cast<uint32_t>(byte_tokenizer_size()));
}

// Every merge recounted from scratch.
std::vector<std::string> slow_merges(std::map<std::string, int> words, size_t count) {
  std::vector<std::pair<std::vector<int>, int>> list;
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  for (const auto& [w, n] : words) list.push_back({{w.begin(), w.end()}, n});
  std::vector<std::string> out;
  while (out.size() < count) {
    std::map<std::pair<int, int>, int> pairs;
    for (const auto& [s, n] : list) {
      for (size_t i = 0; i + 1 < s.size(); ++i) pairs[{s[i], s[i + 1]}] += n;
    }
    std::pair<int, int> best;
    int most = 1;
    for (const auto& [p, n] : pairs) {
      if (n > most) best = p, most = n;
    }
    if (most < 2) break;
    const std::string result =
        bytes[static_cast<size_t>(best.first)] + bytes[static_cast<size_t>(best.second)];
    const auto known = std::find(bytes.begin(), bytes.end(), result);
    const int symbol = static_cast<int>(known - bytes.begin());
    if (known == bytes.end()) {
      bytes.push_back(result);
      out.push_back(result);
    }
    for (auto& [s, n] : list) {
      std::vector<int> merged;
      for (size_t i = 0; i < s.size(); ++i) {
        const bool match = i + 1 < s.size() && s[i] == best.first && s[i + 1] == best.second;
        merged.push_back(match ? symbol : s[i]);
        i += match ? 1 : 0;
      }
      s = merged;
    }
  }
  return out;
}

TEST(BpeTrainer, EqualsTheSlowOne) {
  base::SplitMix64 random(3);
  std::map<std::string, int> words;
  std::string text;
  for (int i = 0; i < 400; ++i) {
    std::string word = " ";
    const uint64_t length = 1 + random.below(7);
    for (uint64_t k = 0; k < length; ++k) word += static_cast<char>('a' + random.below(3));
    ++words[word];
    text += word;
  }
  const auto expected = slow_merges(words, 150);
  const Tokenizer t = train(text, 150);
  ASSERT_EQ(t.size(), byte_tokenizer_size() + expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(t.token_bytes(static_cast<int32_t>(259 + i)), expected[i]) << i;
  }
}

}  // namespace
}  // namespace thimble::text
