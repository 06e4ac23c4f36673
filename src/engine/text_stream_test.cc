// Aim: reasoning, answer and stop strings come out the same however the text was cut into tokens,
// and every delta is whole characters that nothing takes back. Method: a tokenizer that has a token
// for every substring of a text; all ways to cut short texts, many random ways to cut long ones;
// expectations written by hand, and for stop strings a naive search.
#include "engine/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "text/testing.h"
#include "text/utf8.h"

namespace thimble::engine {
namespace {

constexpr std::string_view kClose = "</think>";

// Tokens for every byte, for </think> and for each substring of two characters or more.
text::Tokenizer tokenizer_for(const std::string& text) {
  std::set<std::string> pieces;
  for (size_t from = 0; from < text.size(); ++from) {
    for (size_t size = 2; from + size <= text.size() && size <= 12; ++size) {
      const std::string piece = text.substr(from, size);
      const bool one_character = text::next_code_point(piece).bytes == size;
      if (text::is_valid_utf8(piece) && !one_character) pieces.insert(piece);
    }
  }
  pieces.erase(std::string(kClose));
  text::SmallTokenizer small;
  small.added.assign(pieces.begin(), pieces.end());
  small.added.emplace_back(kClose);
  return small.make();
}

std::vector<int32_t> ids_of(const text::Tokenizer& tokenizer, const std::string& piece) {
  if (const auto id = tokenizer.find_added(piece)) return {*id};
  std::vector<int32_t> ids;
  for (const char byte : piece) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

// What one stream gave in all. `close_at`: bytes of text before the </think> token, or none.
struct Outcome {
  std::string reasoning;
  std::string content;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Outcome& o) {
  return out << "reasoning '" << o.reasoning << "' content '" << o.content << "' stopped "
             << o.stopped;
}

class Cutter {
 public:
  Cutter(std::string text, std::optional<size_t> close_at, TextStreamOptions options)
      : text_(std::move(text)),
        close_at_(close_at),
        options_(std::move(options)),
        tokenizer_(tokenizer_for(text_)) {
    if (options_.think_close) options_.think_close = tokenizer_.find_added(kClose);
  }

  // `cut[i]`: a token border after byte i.
  Outcome run(const std::vector<bool>& cut) const {
    TextStream stream(tokenizer_, options_);
    Outcome outcome;
    std::string piece;
    const auto take = [&](const TextDelta& delta) {
      EXPECT_TRUE(text::is_valid_utf8(delta.reasoning)) << "half a character";
      EXPECT_TRUE(text::is_valid_utf8(delta.content)) << "half a character";
      outcome.reasoning += delta.reasoning;
      outcome.content += delta.content;
    };
    const auto flush = [&] {
      for (const int32_t id : ids_of(tokenizer_, piece)) take(stream.push(id));
      piece.clear();
    };
    for (size_t i = 0; i <= text_.size(); ++i) {
      if (close_at_ == i) {
        flush();
        take(stream.push(*tokenizer_.find_added(kClose)));
      }
      if (i == text_.size()) break;
      piece += text_[i];
      if (cut[i]) flush();
    }
    flush();
    take(stream.finish());
    outcome.stopped = stream.stopped();
    return outcome;
  }

  // The same outcome for every way to cut (short texts) or for 2,000 random ways.
  void expect(const Outcome& want) const {
    const size_t borders = text_.size();
    const bool all = borders <= 11;
    const uint64_t runs = all ? 1ULL << borders : 2000;
    base::SplitMix64 random(1);
    for (uint64_t run_index = 0; run_index < runs; ++run_index) {
      std::vector<bool> cut(borders);
      for (size_t i = 0; i < borders; ++i) {
        cut[i] = all ? (run_index >> i & 1) != 0 : random.below(1 + run_index % 6) == 0;
      }
      ASSERT_EQ(run(cut), want) << "text '" << text_ << "' cut number " << run_index;
    }
  }

 private:
  std::string text_;
  std::optional<size_t> close_at_;
  TextStreamOptions options_;
  text::Tokenizer tokenizer_;
};

TextStreamOptions chat(bool reasoning, std::vector<std::string> stop = {}) {
  return {.starts_in_reasoning = reasoning, .think_close = 0, .stop = std::move(stop)};
}
TextStreamOptions plain(std::vector<std::string> stop = {}) { return {.stop = std::move(stop)}; }

TEST(TextStream, ReasoningAndAnswerComeApart) {
  Cutter("because.so.", 8, chat(true)).expect({"because.", "so.", false});
  Cutter("a naïve 🙂 reasoning, then 你好 the answer 👍🏽!", 24, chat(true))
      .expect({"a naïve 🙂 reasoning,", " then 你好 the answer 👍🏽!", false});
}

TEST(TextStream, NewlinesAtTheBordersAreDropped) {
  Cutter("\n\na\n\nb\n\n\n\nc\n", 8, chat(true)).expect({"a\n\nb", "c\n", false});
  Cutter("\n\n\n\n", 2, chat(true)).expect({"", "", false});
  Cutter("\n\nanswer\n", std::nullopt, chat(false)).expect({"", "answer\n", false});
  Cutter("\n \nx", std::nullopt, chat(false)).expect({"", " \nx", false});
}

TEST(TextStream, ReasoningCutByTheLimitKeepsItsNewlines) {
  Cutter("\nhm\n\n", std::nullopt, chat(true)).expect({"hm\n\n", "", false});
}

TEST(TextStream, PlainCompletionKeepsEverything) {
  Cutter("\n\na\n", std::nullopt, plain()).expect({"", "\n\na\n", false});
}

TEST(TextStream, StopStringsEndTheAnswer) {
  Cutter("one. STOP two", std::nullopt, plain({"STOP"})).expect({"", "one. ", true});
  Cutter("aab", std::nullopt, plain({"ab"})).expect({"", "a", true});
  Cutter("ababac", std::nullopt, plain({"abac"})).expect({"", "ab", true});
  Cutter("x🙂🙂y", std::nullopt, plain({"🙂y"})).expect({"", "x🙂", true});
}

TEST(TextStream, TheMatchThatEndsFirstWinsAndTheLongestOfThose) {
  Cutter("xabcdy", std::nullopt, plain({"abcd", "bc"})).expect({"", "xa", true});
  Cutter("xabcy", std::nullopt, plain({"c", "abc", "bc"})).expect({"", "x", true});
}

TEST(TextStream, WhatOnlyBeginsLikeAStopStringComesOutInTheEnd) {
  Cutter("say STO", std::nullopt, plain({"STOP"})).expect({"", "say STO", false});
  Cutter("STSTST", std::nullopt, plain({"STOP", "TSTT"})).expect({"", "STSTST", false});
}

TEST(TextStream, StopStringsMatchTheAnswerOnly) {
  Cutter("a END bc END d", 8, chat(true, {"END"})).expect({"a END bc", " ", true});
  // Leading newlines are gone before a stop string can match them.
  Cutter("\n\na\n\nb", std::nullopt, chat(false, {"\n\n"})).expect({"", "a", true});
  // A match never spans the border.
  Cutter("ENDx", 2, chat(true, {"END"})).expect({"EN", "Dx", false});
}

TEST(TextStream, EmptyStopStringsAreIgnored) {
  Cutter("abc", std::nullopt, plain({"", "c"})).expect({"", "ab", true});
}

TEST(TextStream, MalformedBytesBecomeReplacementCharacters) {
  Cutter("a\xE4\xBDz\xFF", std::nullopt, plain()).expect({"", "a\uFFFDz\uFFFD", false});
  Cutter("\xE4\xBD\xA0", 2, chat(true)).expect({"\uFFFD", "\uFFFD", false});
  Cutter("ab\xF0\x9F\x99", std::nullopt, plain({"b\uFFFD"})).expect({"", "a", true});
}

// Random texts over a small alphabet with several stop strings, against a search over the whole
// text.
TEST(TextStream, RandomStopStringsMatchANaiveSearch) {
  base::SplitMix64 random(9);
  const auto word = [&](size_t size) {
    std::string out;
    for (size_t i = 0; i < size; ++i) out += "ab"[random.below(2)];
    return out;
  };
  for (int round = 0; round < 60; ++round) {
    const std::string text = word(10);
    std::vector<std::string> stops;
    for (uint64_t i = 0; i <= random.below(3); ++i) stops.push_back(word(2 + random.below(4)));
    Outcome want{"", text, false};
    for (size_t end = 1; end <= text.size() && !want.stopped; ++end) {
      size_t longest = 0;
      for (const std::string& stop : stops) {
        if (std::string_view(text).substr(0, end).ends_with(stop)) {
          longest = std::max(longest, stop.size());
        }
      }
      if (longest > 0) want = {"", text.substr(0, end - longest), true};
    }
    Cutter(text, std::nullopt, plain(stops)).expect(want);
  }
}

class TextStreamTokens : public testing::Test {
 protected:
  static text::Tokenizer make() {
    text::SmallTokenizer small;
    small.added = {std::string(kClose), "<think>", "<｜User｜>", "｜DSML｜"};
    return small.make();
  }
  text::Tokenizer tokenizer = make();
  int32_t close = *tokenizer.find_added(kClose);
  int32_t open = *tokenizer.find_added("<think>");
  int32_t user = *tokenizer.find_added("<｜User｜>");
  int32_t dsml = *tokenizer.find_added("｜DSML｜");

  Outcome all_of(TextStreamOptions options, const std::vector<int32_t>& ids) const {
    TextStream stream(tokenizer, std::move(options));
    Outcome outcome;
    const auto take = [&](const TextDelta& delta) {
      outcome.reasoning += delta.reasoning;
      outcome.content += delta.content;
    };
    for (const int32_t id : ids) take(stream.push(id));
    take(stream.finish());
    outcome.stopped = stream.stopped();
    return outcome;
  }
};

TEST_F(TextStreamTokens, ReasoningTokensIncludeTheClosingOne) {
  TextStream stream(tokenizer, {.starts_in_reasoning = true, .think_close = close});
  for (const int32_t id : {97, 98, 10, close, 99, 100}) stream.push(id);
  EXPECT_EQ(stream.reasoning_tokens(), 4u);
}

// max_tokens reached while thinking: all of it is reasoning, the answer is empty.
TEST_F(TextStreamTokens, LimitInsideReasoningLeavesAnEmptyAnswer) {
  TextStream stream(tokenizer, {.starts_in_reasoning = true, .think_close = close});
  Outcome outcome;
  for (const int32_t id : {'a', 'b', 'c', 'd', 'e'}) outcome.reasoning += stream.push(id).reasoning;
  const TextDelta last = stream.finish();
  EXPECT_EQ(outcome.reasoning + last.reasoning, "abcde");
  EXPECT_EQ(last.content, "");
  EXPECT_EQ(stream.reasoning_tokens(), 5u);
}

TEST_F(TextStreamTokens, ASecondClosingTokenIsSkipped) {
  TextStream stream(tokenizer, {.starts_in_reasoning = true, .think_close = close});
  std::string content;
  for (const int32_t id : {97, close, 10, close, 10, 98, close, 99}) {
    content += stream.push(id).content;
  }
  EXPECT_EQ(content + stream.finish().content, "bc");
  EXPECT_EQ(stream.reasoning_tokens(), 2u);
}

TEST_F(TextStreamTokens, DeltasComeAsSoonAsTheyAreCertain) {
  TextStream stream(tokenizer,
                    {.starts_in_reasoning = true, .think_close = close, .stop = {"xyz"}});
  EXPECT_EQ(stream.push('a').reasoning, "a");
  EXPECT_TRUE(stream.push('\n').empty());
  EXPECT_EQ(stream.push('b').reasoning, "\nb");
  EXPECT_TRUE(stream.push(close).empty());
  EXPECT_EQ(stream.push('w').content, "w");
  EXPECT_TRUE(stream.push('x').empty());
  EXPECT_TRUE(stream.push('y').empty());
  EXPECT_EQ(stream.push('!').content, "xy!");
}

TEST_F(TextStreamTokens, NothingComesAfterAStop) {
  TextStream stream(tokenizer, {.stop = {"b"}});
  EXPECT_EQ(stream.push('a').content, "a");
  EXPECT_TRUE(stream.push('b').empty());
  EXPECT_TRUE(stream.stopped());
  EXPECT_TRUE(stream.push('c').empty());
  EXPECT_TRUE(stream.finish().empty());
}

TEST_F(TextStreamTokens, ControlTokensHaveNoText) {
  const std::vector<int32_t> ids = {'a', user, 'b', open, close, 'c', dsml, open, 'd'};
  EXPECT_EQ(all_of({.starts_in_reasoning = true, .think_close = close}, ids),
            (Outcome{"ab", "cd", false}));
  EXPECT_EQ(all_of({}, ids), (Outcome{"", "ab<think></think>c<think>d", false}));
  EXPECT_EQ(all_of({.control = ControlTokens::kShow}, ids),
            (Outcome{"", "a<｜User｜>b<think></think>c｜DSML｜<think>d", false}));
  EXPECT_EQ(all_of({.think_close = close, .control = ControlTokens::kShow}, ids),
            (Outcome{"", "a<｜User｜>b<think>c｜DSML｜<think>d", false}));
}

// What is shown is the text of the tokens that are left: stop strings, characters and newlines are
// found across those that are not.
TEST_F(TextStreamTokens, ControlTokensLeaveNoGap) {
  EXPECT_EQ(all_of({.stop = {"ab"}}, {'x', 'a', user, 'b', 'c'}), (Outcome{"", "x", true}));
  EXPECT_EQ(all_of({}, {0xE4, 0xBD, user, 0xA0}), (Outcome{"", "\xE4\xBD\xA0", false}));
  EXPECT_EQ(all_of({.starts_in_reasoning = true, .think_close = close},
                   {open, '\n', 'a', '\n', user, close, user, '\n', 'b'}),
            (Outcome{"a", "b", false}));
}

TEST_F(TextStreamTokens, ControlTokensCountAsReasoning) {
  TextStream stream(tokenizer, {.starts_in_reasoning = true, .think_close = close});
  for (const int32_t id : {open, 97, user, close, user}) stream.push(id);
  EXPECT_EQ(stream.reasoning_tokens(), 4u);
}

TEST_F(TextStreamTokens, IdsBeyondTheTokenizerGiveNoText) {
  TextStream stream(tokenizer, {});
  EXPECT_TRUE(stream.push(100'000).empty());
  EXPECT_TRUE(stream.push(-1).empty());
  EXPECT_EQ(stream.push('a').content, "a");
}

}  // namespace
}  // namespace thimble::engine
