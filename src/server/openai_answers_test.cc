// Aim: edges of the answers' JSON: infinite log-probabilities, ids beyond the tokenizer, offsets.
// Method: direct calls with the byte tokenizer; whole shapes are compared in tests/api.
#include "server/openai_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "text/byte_tokenizer.h"
#include "text/utf8.h"

namespace thimble::server {
namespace {

using nlohmann::json;

text::Tokenizer tokenizer() { return *text::Tokenizer::parse(text::make_byte_tokenizer_json()); }

TEST(Answers, ImpossibleTokensHaveAFiniteLogprob) {
  const ChunkFrame frame{AnswerFrame()};
  AnswerPart part;
  const float never = -std::numeric_limits<float>::infinity();
  part.logprobs = {TokenRecord{{100, never, {{1'000'000, never}}}, false, 0}};
  const json chunk = json::parse(part_chunk(frame, ChunkPlace::kFirst, part, tokenizer()));
  const json& entry = chunk["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["logprob"], -9999.0);
  EXPECT_EQ(entry["top_logprobs"][0]["token"], "") << "beyond the tokenizer's vocabulary";
}

TEST(Answers, TheRoleComesWithTheFirstChunkOnly) {
  const ChunkFrame frame{AnswerFrame()};
  AnswerPart part;
  part.text.content = "x";
  const json first = json::parse(part_chunk(frame, ChunkPlace::kFirst, part, tokenizer()));
  const json later = json::parse(part_chunk(frame, ChunkPlace::kLater, part, tokenizer()));
  EXPECT_EQ(first["choices"][0]["delta"], (json{{"role", "assistant"}, {"content", "x"}}));
  EXPECT_EQ(later["choices"][0]["delta"], (json{{"content", "x"}}));
}

std::vector<uint64_t> offsets(const std::vector<std::string>& tokens) {
  TextOffsets text;
  std::vector<uint64_t> out;
  for (const std::string& token : tokens) out.push_back(text.push(token));
  return out;
}

TEST(Answers, OffsetsAreOfTheCharacterWhereATokenBegins) {
  using List = std::vector<uint64_t>;
  EXPECT_EQ(offsets({"abc", "d"}), (List{0, 3}));
  EXPECT_EQ(offsets({"a", "\xC3", "\xA9", "b"}), (List{0, 1, 1, 2}));
  EXPECT_EQ(offsets({"a", "\xA9", "\xA9z", "b"}), (List{0, 1, 2, 4})) << "stray continuations";
  EXPECT_EQ(offsets({"\xC3", "z", "b"}), (List{0, 1, 2})) << "a character cut short";
  EXPECT_EQ(offsets({"\xC3", "", "\xA9", ""}), (List{0, 0, 0, 1})) << "tokens without text";
}

// However bytes are cut, a token's offset is that of its first byte in the text as shown.
TEST(Answers, OffsetsAgreeWithTheText) {
  const std::string bytes =
      "a\xC3\xA9\x80\xE2\x82z\xF0\x9F\x98\x80\xF0\x9F\xFF\xED\xA0\x80\xE2\x82\xAC";
  const auto characters = [](const std::string& text) {
    return static_cast<uint64_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
  };
  for (size_t first = 1; first <= 5; ++first) {
    for (size_t length = 1; length <= 5; ++length) {
      TextOffsets text;
      text.push(bytes.substr(0, first));
      for (size_t at = first; at < bytes.size(); at += length) {
        const std::string shown = text::to_valid_utf8(bytes.substr(0, at + 1));
        EXPECT_EQ(text.push(bytes.substr(at, length)) + 1, characters(shown)) << at;
      }
    }
  }
}

TEST(Answers, FinishReasons) {
  EXPECT_STREQ(finish_reason_name(AnswerEnd::kLength), "length");
  EXPECT_STREQ(finish_reason_name(AnswerEnd::kStop), "stop");
  EXPECT_STREQ(finish_reason_name(AnswerEnd::kCalls), "tool_calls");
}

}  // namespace
}  // namespace thimble::server
