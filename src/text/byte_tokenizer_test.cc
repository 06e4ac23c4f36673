// Aim: the tokenizer that `thimble init` writes has every byte, the whole chat format and nothing
// else. Method: load it and look. (tests/tokenizer loads it with another implementation.)
#include "text/byte_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

TEST(ByteTokenizer, SplitsAsTheReleasedFile) {
  const auto file = nlohmann::json::parse(make_byte_tokenizer_json());
  const auto& steps = file["pre_tokenizer"]["pretokenizers"];
  ASSERT_EQ(steps.size(), 4U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(steps[i]["pattern"]["Regex"], released_patterns()[i]);
}

}  // namespace
}  // namespace thimble::text
