// Aim: control tokens are found by their text, and what lacks is named. Method: made vocabularies.
#include "text/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/testing.h"

namespace thimble::text {
namespace {

TEST(SpecialTokens, FoundByContentWhateverTheIds) {
  SmallTokenizer small;
  small.added = {"</think>",
                 "<｜System｜>",
                 "<think>",
                 "<｜User｜>",
                 "<｜Assistant｜>",
                 "<｜end▁of▁sentence｜>",
                 "<｜begin▁of▁sentence｜>"};
  const auto tokens = resolve_chat_tokens(small.make());
  ASSERT_TRUE(tokens) << tokens.error().describe();
  EXPECT_EQ(tokens->think_close, 256);
  EXPECT_EQ(tokens->system, 257);
  EXPECT_EQ(tokens->think_open, 258);
  EXPECT_EQ(tokens->user, 259);
  EXPECT_EQ(tokens->assistant, 260);
  EXPECT_EQ(tokens->eos, 261);
  EXPECT_EQ(tokens->bos, 262);
  EXPECT_FALSE(tokens->pad || tokens->dsml || tokens->latest_reminder || tokens->image);
}

TEST(SpecialTokens, MissingOnesAreAllNamed) {
  const Path golden = Path(THIMBLE_SOURCE_DIR) / "tests" / "golden";
  const auto tokenizer = Tokenizer::open(golden / "t1_mini" / "model" / "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
  const auto tokens = resolve_chat_tokens(*tokenizer);
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(tokens.error().message, testing::HasSubstr("lack <｜System｜>, <think>, </think>"));
  EXPECT_EQ(tokenizer->find_added(kBosText), 0);  // Enough for completions.
}

TEST(SpecialTokens, PlaceHoldersAndImagesAreNotSampled) {
  SmallTokenizer small;
  small.added = {"<|place_holder_mm_span_0021|>",
                 "<|place_holder_mm_span_|>",
                 "<|place_holder_mm_span_x1|>",
                 "<｜deepseek_image｜>",
                 "<think>",
                 "<｜rl_image_pad｜>",
                 "<｜rl_image_start｜>",
                 "<｜place▁holder▁no▁1｜>"};
  EXPECT_THAT(unsampled_tokens(small.make()), testing::ElementsAre(256, 259, 261, 262));
}

TEST(SpecialTokens, ControlTokensStandBetweenBars) {
  SmallTokenizer small;
  small.added = {"<｜User｜>", "<|EOT|>", "｜DSML｜", "<think>", "</think>", "<b>", "<dsml:"};
  const Tokenizer tokenizer = small.make();
  for (const char* content : {"<｜User｜>", "<|EOT|>", "｜DSML｜"}) {
    EXPECT_TRUE(is_control_token(tokenizer, *tokenizer.find_added(content))) << content;
  }
  for (const char* content : {"<think>", "</think>", "<b>", "<dsml:"}) {
    EXPECT_FALSE(is_control_token(tokenizer, *tokenizer.find_added(content))) << content;
  }
  EXPECT_FALSE(is_control_token(tokenizer, 'a'));
  EXPECT_FALSE(is_control_token(tokenizer, -1));
  EXPECT_FALSE(is_control_token(tokenizer, static_cast<int32_t>(tokenizer.size())));
}

// The spelling of a control token in the ordinary vocabulary is text like any other.
TEST(SpecialTokens, MergedTextIsNoControlToken) {
  SmallTokenizer small;
  small.merges = {{"<", "|"}, {"<|", "x"}, {"|", ">"}, {"<|x", "|>"}};
  const Tokenizer tokenizer = small.make();
  EXPECT_EQ(tokenizer.token_bytes(259), "<|x|>");
  EXPECT_FALSE(is_control_token(tokenizer, 259));
}

}  // namespace
}  // namespace thimble::text
