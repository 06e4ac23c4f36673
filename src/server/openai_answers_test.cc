// Aim: edges of the answers' JSON: infinite log-probabilities, ids beyond the tokenizer, offsets.
// Method: direct calls with the byte tokenizer; whole shapes are compared in tests/api.
#include "server/openai_answers.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "text/byte_tokenizer.h"

namespace thimble::server {
namespace {

using nlohmann::json;

text::Tokenizer tokenizer() { return *text::Tokenizer::parse(text::make_byte_tokenizer_json()); }

TEST(Answers, ImpossibleTokensHaveAFiniteLogprob) {
  AnswerFrame frame;
  AnswerPart part;
  const float never = -std::numeric_limits<float>::infinity();
  part.logprobs = {TokenRecord{{100, never, {{1'000'000, never}}}, false, 0}};
  const json chunk = json::parse(part_chunk(frame, ChunkPlace::kFirst, part, tokenizer()));
  const json& entry = chunk["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["logprob"], -9999.0);
  EXPECT_EQ(entry["top_logprobs"][0]["token"], "") << "beyond the tokenizer's vocabulary";
}

TEST(Answers, TheRoleComesWithTheFirstChunkOnly) {
  AnswerFrame frame;
  AnswerPart part;
  part.text.content = "x";
  const json first = json::parse(part_chunk(frame, ChunkPlace::kFirst, part, tokenizer()));
  const json later = json::parse(part_chunk(frame, ChunkPlace::kLater, part, tokenizer()));
  EXPECT_EQ(first["choices"][0]["delta"], (json{{"role", "assistant"}, {"content", "x"}}));
  EXPECT_EQ(later["choices"][0]["delta"], (json{{"content", "x"}}));
}

TEST(Answers, CharactersAreCountedWhereTheyBegin) {
  EXPECT_EQ(characters_begun("abc"), 3u);
  EXPECT_EQ(characters_begun("\xC3"), 1u);
  EXPECT_EQ(characters_begun("\xA9"), 0u);
  EXPECT_EQ(characters_begun("\xA9z"), 1u);
}

TEST(Answers, FinishReasons) {
  EXPECT_STREQ(finish_reason_name(engine::FinishReason::kLength), "length");
  EXPECT_STREQ(finish_reason_name(engine::FinishReason::kStop), "stop");
}

}  // namespace
}  // namespace thimble::server
