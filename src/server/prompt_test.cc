// Aim: token budgets at the context's edge, and what reaches the engine. Method: the byte tokenizer
// and prompts of known length.
#include "server/prompt.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "text/byte_tokenizer.h"

namespace thimble::server {
namespace {

class PromptTest : public testing::Test {
 protected:
  text::Tokenizer tokenizer_ = *text::Tokenizer::parse(text::make_byte_tokenizer_json());
  ModelInfo model_ = make_model_info("m", 20, tokenizer_);
  PromptDefaults defaults_;

  // A prompt of `length` tokens, the answer's length as given.
  ApiResult<engine::GenerationRequest> request(size_t length, std::optional<uint32_t> max_tokens) {
    Prompt prompt;
    prompt.ids.assign(length, 50);
    GenerationFields fields;
    fields.max_tokens = max_tokens;
    return generation_request(prompt, fields, model_, defaults_);
  }
};

TEST_F(PromptTest, DefaultsAreClampedToWhatIsLeft) {
  EXPECT_EQ(request(15, {})->max_tokens, 5u);
  EXPECT_EQ(request(19, {})->max_tokens, 1u);
  defaults_.answer_tokens = 3;
  EXPECT_EQ(request(15, {})->max_tokens, 3u);
}

TEST_F(PromptTest, WhatWasAskedForIsKeptOrRefused) {
  EXPECT_EQ(request(15, 5)->max_tokens, 5u);
  EXPECT_EQ(request(15, 6).error().code, "context_length_exceeded");
  EXPECT_EQ(request(20, {}).error().code, "context_length_exceeded");
  EXPECT_EQ(request(500, 1).error().code, "context_length_exceeded");
}

// vLLM's lowest is the engine's highest, as the request's parser has turned it.
TEST_F(PromptTest, PriorityAndDeadlineReachTheEngine) {
  const auto parsed =
      parse_completion_request(R"({"prompt": "a", "priority": 5, "deadline_ms": 60000})");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->common.priority, -5);
  Prompt prompt;
  prompt.ids.assign(3, 50);
  const int64_t before = base::monotonic_us();
  const auto request = generation_request(prompt, parsed->common, model_, defaults_);
  EXPECT_EQ(request->priority, -5);
  EXPECT_GE(*request->deadline_us, before + 60'000'000);
  EXPECT_LE(*request->deadline_us, base::monotonic_us() + 60'000'000);
  EXPECT_FALSE(generation_request(prompt, {}, model_, defaults_)->deadline_us.has_value());
}

// A shorter answer does not help a prompt that fills the context.
TEST_F(PromptTest, TheErrorNamesTheFieldAtFault) {
  EXPECT_EQ(request(15, 6).error().param, "max_tokens");
  EXPECT_EQ(request(19, 2).error().param, "max_tokens");
  EXPECT_EQ(request(20, {}).error().param, "prompt");
  EXPECT_EQ(request(20, 1).error().param, "prompt");
  EXPECT_EQ(request(500, 500).error().param, "prompt");
  Prompt chat;
  chat.ids.assign(20, 50);
  chat.field = "messages";
  EXPECT_EQ(generation_request(chat, {}, model_, defaults_).error().param, "messages");
  GenerationFields fields;
  fields.max_tokens = 30;
  fields.max_tokens_name = "max_completion_tokens";
  chat.ids.resize(5);
  EXPECT_EQ(generation_request(chat, fields, model_, defaults_).error().param,
            "max_completion_tokens");
}

TEST_F(PromptTest, IdsMustBeOfTheModelsVocabulary) {
  CompletionRequest request;
  const auto last = static_cast<int32_t>(model_.vocab_size) - 1;
  request.prompt = std::vector<int32_t>{5, last};
  EXPECT_TRUE(completion_prompt(request, model_));
  request.prompt = std::vector<int32_t>{5, last + 1};
  const auto refused = completion_prompt(request, model_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "prompt");
  EXPECT_NE(refused.error().message.find("token 1 of 'prompt'"), std::string::npos);
}

// Without a BOS an empty text is no prompt at all.
TEST_F(PromptTest, AnEmptyPromptIsThePromptsFault) {
  CompletionRequest request;
  request.prompt = std::string();
  EXPECT_EQ(completion_prompt(request, model_)->ids, std::vector<int32_t>{*model_.bos});
  model_.bos.reset();
  EXPECT_EQ(completion_prompt(request, model_).error().param, "prompt");
}

TEST_F(PromptTest, ReasoningHasABudgetOfItsOwn) {
  model_.context_tokens = 1'000'000;
  Prompt prompt;
  prompt.ids = {1, 2};
  EXPECT_EQ(generation_request(prompt, {}, model_, defaults_)->max_tokens, 8192u);
  prompt.starts_in_reasoning = true;
  EXPECT_EQ(generation_request(prompt, {}, model_, defaults_)->max_tokens, 65536u);
}

TEST_F(PromptTest, RequestsWithoutASeedGetDifferentOnes) {
  EXPECT_NE(request(1, 1)->sampling.seed, request(1, 1)->sampling.seed);
}

TEST_F(PromptTest, TheEndOfSentenceStopsOrIsNeverSampled) {
  Prompt prompt;
  prompt.ids = {1};
  GenerationFields fields;
  const auto usual = generation_request(prompt, fields, model_, defaults_);
  EXPECT_EQ(usual->stop_tokens, std::vector<int32_t>{*model_.eos});
  EXPECT_TRUE(usual->masked_tokens.empty());
  fields.ignore_eos = true;
  const auto endless = generation_request(prompt, fields, model_, defaults_);
  EXPECT_TRUE(endless->stop_tokens.empty());
  EXPECT_EQ(endless->masked_tokens, std::vector<int32_t>{*model_.eos});
}

TEST_F(PromptTest, ChoicesFollowFromTheFirst) {
  auto one = *request(15, 5);
  one.sampling.seed = 9;
  one.prompt_logprobs = 2;
  const auto three = choices_of(one, 3);
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[0].sampling.seed, 9u);
  EXPECT_EQ(three[0].prompt_logprobs, 2u);
  EXPECT_FALSE(three[1].prompt_logprobs.has_value()) << "the prompt's are told once";
  EXPECT_NE(three[1].sampling.seed, three[2].sampling.seed);
  EXPECT_EQ(choices_of(one, 2)[1].sampling.seed, three[1].sampling.seed) << "whatever n is";
}

}  // namespace
}  // namespace thimble::server
