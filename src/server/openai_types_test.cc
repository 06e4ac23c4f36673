// Aim: hostile and odd bodies: limits, numbers at their edges, spellings of "off". Method: the
// parsers alone; what requests mean end to end is in tests/api.
#include "server/openai_types.h"

#include <gtest/gtest.h>

#include "server/internal/json.h"

namespace thimble::server {
namespace {

std::string chat(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "x"}], )" + fields + "}";
}

TEST(JsonBody, DepthEndsAtTheLimit) {
  const auto nested = [](uint32_t depth) {
    return R"({"a": )" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_TRUE(parse_object(nested(kJsonDepthMax)));
  EXPECT_FALSE(parse_object(nested(kJsonDepthMax + 1)));
  EXPECT_FALSE(parse_object(std::string(1'000'000, '[')));
}

TEST(JsonBody, ManySmallContainersAreRefused) {
  std::string body = R"({"a": [)";
  for (uint64_t i = 0; i <= kJsonContainersMax; ++i) body += "[],";
  EXPECT_EQ(parse_object(body + "0]}").error().code, "invalid_json");
}

TEST(JsonBody, BracketsInStringsDoNotCount) {
  EXPECT_TRUE(parse_object(
      R"({"a": "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["})"));
}

TEST(JsonBody, OneBadByteIsAnErrorWithItsPlace) {
  const auto parsed = parse_object("{\"prompt\": \"\xC3\x28\"}");
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("byte 14 of 16"), std::string::npos)
      << parsed.error().message;
}

TEST(Integers, FloatsWithoutAFractionCount) {
  EXPECT_EQ(parse_chat_request(chat(R"("max_tokens": 5.0)"))->common.max_tokens, 5u);
  EXPECT_FALSE(parse_chat_request(chat(R"("max_tokens": 5.5)")));
  EXPECT_FALSE(parse_chat_request(chat(R"("max_tokens": 1e300)")));
  EXPECT_FALSE(parse_chat_request(chat(R"("max_tokens": 99999999999999999999)")));
  EXPECT_FALSE(parse_chat_request(chat(R"("max_tokens": true)")));
}

TEST(Seeds, AnyIntegerOf64Bits) {
  EXPECT_EQ(parse_chat_request(chat(R"("seed": -1)"))->common.seed, ~0ULL);
  EXPECT_EQ(parse_chat_request(chat(R"("seed": 9223372036854775807)"))->common.seed,
            9223372036854775807ULL);
  EXPECT_EQ(parse_chat_request(chat(R"("seed": 9223372036854775808)"))->common.seed, 1ULL << 63);
  EXPECT_EQ(parse_chat_request(chat(R"("seed": -9223372036854775808)"))->common.seed, 1ULL << 63);
  EXPECT_EQ(parse_chat_request(chat(R"("seed": 18446744073709551615)"))->common.seed, ~0ULL);
  EXPECT_EQ(parse_chat_request(chat(R"("seed": 5.0)"))->common.seed, 5u);
  for (const char* seed :
       {"1.5", "18446744073709551616", "-9223372036854775809", "1e300", "\"5\"", "true", "[1]"}) {
    const auto refused = parse_chat_request(chat(R"("seed": )" + std::string(seed)));
    ASSERT_FALSE(refused) << seed;
    EXPECT_EQ(refused.error().param, "seed");
  }
  EXPECT_EQ(parse_chat_request(chat(R"("seed": null)"))->common.seed, std::nullopt);
}

TEST(Sampling, OffInAllSpellings) {
  EXPECT_EQ(parse_chat_request(chat(R"("top_k": -1)"))->common.sampling.top_k, 0u);
  EXPECT_EQ(parse_chat_request(chat(R"("top_k": 0)"))->common.sampling.top_k, 0u);
  EXPECT_EQ(parse_chat_request(chat(R"("temperature": 0)"))->common.sampling.temperature, 0.0F);
  EXPECT_FLOAT_EQ(parse_chat_request(chat(R"("user": "u")"))->common.sampling.top_p, 0.95F);
}

TEST(MaxTokens, TheNewerNameWins) {
  EXPECT_EQ(
      parse_chat_request(chat(R"("max_tokens": 5, "max_completion_tokens": 7)"))->common.max_tokens,
      7u);
}

TEST(Reasoning, SaysNothingUnlessAsked) {
  const auto quiet = parse_chat_request(chat(R"("user": "u")"));
  EXPECT_EQ(quiet->reasoning.thinking, std::nullopt);
  EXPECT_EQ(quiet->reasoning.budget, std::nullopt);
  const auto kwargs =
      parse_chat_request(chat(R"("chat_template_kwargs": {"drop_thinking": true})"));
  EXPECT_EQ(kwargs->reasoning.past, text::PastReasoning::kDrop);
}

TEST(Reasoning, AgreementBetweenFieldsIsFine) {
  const auto both =
      parse_chat_request(chat(R"("thinking": {"type": "enabled"}, "reasoning_effort": "low",
              "chat_template_kwargs": {"thinking": true})"));
  ASSERT_TRUE(both);
  EXPECT_EQ(both->reasoning.thinking, true);
  EXPECT_EQ(both->reasoning.budget, 50);
}

TEST(Messages, AnAssistantMayHaveOnlyReasoning) {
  const auto request = parse_chat_request(
      R"({"messages": [{"role": "assistant", "content": null, "reasoning_content": "hm"}]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->messages[0].reasoning, "hm");
  EXPECT_FALSE(parse_chat_request(R"({"messages": [{"role": "assistant", "content": null}]})"));
}

TEST(Prompts, ListsDoNotNestForEver) {
  EXPECT_EQ(parse_completion_request(R"({"prompt": ["x"]})")->prompt.index(), 0u);
  EXPECT_EQ(parse_completion_request(R"({"prompt": [[5]]})")->prompt.index(), 1u);
  EXPECT_FALSE(parse_completion_request(R"({"prompt": [["x"]]})"));
  EXPECT_FALSE(parse_completion_request(R"({"prompt": [[[5]]]})"));
  EXPECT_FALSE(parse_completion_request(R"({"prompt": [1, "x"]})"));
  EXPECT_FALSE(parse_completion_request(R"({"prompt": [4294967296]})"));
}

}  // namespace
}  // namespace thimble::server
