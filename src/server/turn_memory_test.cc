// Aim: sampled ids come back for the same tenant, conversation and text, and for nothing else;
// memory is bounded. Method: a small tokenizer in which "ab" has two spellings.
#include "server/turn_memory.h"

#include <gtest/gtest.h>

#include "text/testing.h"

namespace thimble::server {
namespace {

using Ids = std::vector<int32_t>;

class TurnMemoryTest : public testing::Test {
 protected:
  TurnMemoryTest() {
    text::SmallTokenizer small;
    small.merges = {{"a", "b"}};  // 256
    small.added = {"</think>"};   // 257
    tokenizer_.emplace(small.make());
  }
  static TurnMemory::Place place(const std::string& salt, const Ids& before) {
    PrefixHash hash;
    hash.add(before);
    return {salt, hash.value()};
  }
  static std::vector<TurnPart> text(const std::string& text) { return {{{}, text}}; }

  static constexpr int32_t kA = 'a', kB = 'b', kAb = 256, kClose = 257;
  std::optional<text::Tokenizer> tokenizer_;
  TurnMemory memory_{1 << 16};
};

TEST_F(TurnMemoryTest, GivesBackWhatWasSampledThere) {
  ASSERT_EQ(tokenizer_->encode("ab", text::AddedTokens::kPlain), Ids{kAb});
  memory_.remember(place("s", {1, 2}), {kA, kB});
  EXPECT_EQ(memory_.find(place("s", {1, 2}), text("ab"), *tokenizer_), (Ids{kA, kB}));
  EXPECT_FALSE(memory_.find(place("s", {1, 2}), text("aba"), *tokenizer_)) << "another text";
  EXPECT_FALSE(memory_.find(place("s", {1, 3}), text("ab"), *tokenizer_)) << "another history";
  EXPECT_FALSE(memory_.find(place("s", {1}), text("ab"), *tokenizer_));
  EXPECT_FALSE(memory_.find(place("t", {1, 2}), text("ab"), *tokenizer_)) << "another tenant";
  EXPECT_FALSE(memory_.find(place("", {1, 2}), text("ab"), *tokenizer_));
}

TEST_F(TurnMemoryTest, OfSeveralAnswersTheOneThatSpellsIt) {
  const auto here = place("", {1});
  memory_.remember(here, {kA, kB});
  memory_.remember(here, {kB});
  memory_.remember(here, {kAb});
  EXPECT_EQ(memory_.find(here, text("b"), *tokenizer_), Ids{kB});
  EXPECT_EQ(memory_.find(here, text("ab"), *tokenizer_), Ids{kAb}) << "the newest";
  memory_.remember(here, {kA, kB});
  EXPECT_EQ(memory_.find(here, text("ab"), *tokenizer_), (Ids{kA, kB})) << "the newest again";
}

// A tail that was not shown (a stop string) is left out, where it begins with a token.
TEST_F(TurnMemoryTest, SpellsExactlyTheText) {
  const auto spelled = [&](const Ids& ids, const std::vector<TurnPart>& parts) {
    return spelling(ids, parts, *tokenizer_);
  };
  EXPECT_EQ(spelled({kA, kB, kAb}, text("ab")), (Ids{kA, kB}));
  EXPECT_FALSE(spelled({kA, kAb}, text("aa"))) << "half of a token";
  EXPECT_FALSE(spelled({kA}, text("ab")));
  const std::vector<TurnPart> reasoned = {{{}, "a"}, {kClose, {}}, {{}, "b"}};
  EXPECT_EQ(spelled({kA, kClose, kB}, reasoned), (Ids{kA, kClose, kB}));
  EXPECT_FALSE(spelled({kA, kB, kClose}, reasoned));
  EXPECT_FALSE(spelled({kA, kB}, reasoned));
  EXPECT_FALSE(spelled({-1}, text("a")));
  EXPECT_FALSE(spelled({9999}, text("a")));
}

// Someone's text that looks like a control token never becomes one.
TEST_F(TurnMemoryTest, ControlTokensStandOnlyWhereTheFormatHasThem) {
  EXPECT_FALSE(spelling(Ids{kA, kClose}, text("a</think>"), *tokenizer_));
  EXPECT_FALSE(spelling(Ids{kClose}, text("</think>"), *tokenizer_));
}

TEST_F(TurnMemoryTest, TheLeastRecentlyUsedMakesRoom) {
  TurnMemory memory(10'000);
  for (int32_t i = 0; i < 20; ++i) {
    memory.remember(place("", {i}), Ids(500, kA));
    EXPECT_LE(memory.bytes(), 10'000u);
    memory.find(place("", {0}), text(std::string(500, 'a')), *tokenizer_);
  }
  EXPECT_TRUE(memory.find(place("", {0}), text("a"), *tokenizer_)) << "used all the time";
  EXPECT_TRUE(memory.find(place("", {19}), text("a"), *tokenizer_));
  EXPECT_FALSE(memory.find(place("", {5}), text("a"), *tokenizer_));
  memory.remember(place("", {77}), Ids(50'000, kA));  // more than there is
  EXPECT_EQ(memory.bytes(), 0u);
}

TEST_F(TurnMemoryTest, OnePromptAskedAgainAndAgainDoesNotFillIt) {
  for (int32_t i = 0; i < 100; ++i) memory_.remember(place("", {1}), {kA, 'c' + i % 50, i});
  EXPECT_LT(memory_.bytes(), 8 * 300u);
}

}  // namespace
}  // namespace thimble::server
