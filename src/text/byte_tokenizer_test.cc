// Aim: the tokenizer that `thimble init` writes has every byte, the whole chat format and nothing
// else. Method: load it and look. (tests/tokenizer loads it with another implementation.)
#include "text/byte_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "text/special_tokens.h"
#include "text/testing.h"

namespace thimble::text {
namespace {

TEST(ByteTokenizer, OneTokenAByteAndTheChatFormat) {
  const auto tokenizer = Tokenizer::parse(make_byte_tokenizer_json());
  ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
  EXPECT_EQ(tokenizer->size(), static_cast<uint32_t>(byte_tokenizer_size()));
  EXPECT_EQ(tokenizer->find_added(kBosText), 0);
  EXPECT_EQ(tokenizer->find_added(kEosText), 1);
  EXPECT_EQ(tokenizer->find_added(kPadText), 2);
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer->encode(std::string(1, static_cast<char>(byte)), AddedTokens::kMatch),
              std::vector<int32_t>{3 + byte});
  }
  const auto tokens = resolve_chat_tokens(*tokenizer);
  ASSERT_TRUE(tokens) << tokens.error().describe();
  EXPECT_TRUE(tokens->pad && tokens->dsml && tokens->latest_reminder && tokens->image);
}

// A model with more ids than these needs a token for each of them: Engram hashes by it.
TEST(ByteTokenizer, FillsALargerVocabularyWithTokensThatAreNeverSampled) {
  const auto tokenizer = Tokenizer::parse(make_byte_tokenizer_json(20'000));
  ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
  EXPECT_EQ(tokenizer->size(), 20'000u);
  const auto unsampled = unsampled_tokens(*tokenizer);
  std::vector<int32_t> fillers(20'000 - static_cast<size_t>(byte_tokenizer_size()));
  std::iota(fillers.begin(), fillers.end(), byte_tokenizer_size());
  EXPECT_THAT(unsampled, ::testing::IsSupersetOf(fillers));
  EXPECT_EQ(unsampled.size(), fillers.size() + 1);  // and the image's
}

TEST(ByteTokenizer, SplitsAsTheReleasedFile) {
  const auto file = nlohmann::json::parse(make_byte_tokenizer_json());
  const auto& steps = file["pre_tokenizer"]["pretokenizers"];
  ASSERT_EQ(steps.size(), 4U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(steps[i]["pattern"]["Regex"], released_patterns()[i]);
}

}  // namespace
}  // namespace thimble::text
