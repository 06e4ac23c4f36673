// Aim: token budgets at the context's edge, and what reaches the engine. Method: the byte tokenizer
// and prompts of known length.
#include "server/prompt.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace thimble::server
