// Aim: any bytes survive encode and decode, added tokens are found only when asked, any thread may
// encode. Method: a vocabulary made for it, seeded random bytes, and the golden tokenizer's ids.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/random.h"
#include "text/byte_tokenizer.h"
#include "text/testing.h"

namespace thimble::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SmallTokenizer small() {
  SmallTokenizer out;
  out.merges = {{"t", "h"}, {"th", "e"}, {" ", "the"}, {"\xE4\xBD", "\xA0"}, {"\xE4", "\xBD"}};
  // The rank of a piece's parts is what counts, not the order of listing results.
  std::swap(out.merges[3], out.merges[4]);
  out.added = {"<｜User｜>", "<think>", "<thinking>", "the<"};
  return out;
}

TEST(Tokenizer, WordsMergeAndAddedTokensMatch) {
  const Tokenizer tokenizer = small().make();
  const int32_t the = *tokenizer.find("the");
  const int32_t space_the = *tokenizer.find("Ġthe");
  EXPECT_THAT(tokenizer.encode("the the", AddedTokens::kMatch), ElementsAre(the, space_the));
  const int32_t user = *tokenizer.find_added("<｜User｜>");
  EXPECT_THAT(tokenizer.encode("<｜User｜>the", AddedTokens::kMatch), ElementsAre(user, the));
  EXPECT_THAT(tokenizer.encode("<thinking>", AddedTokens::kMatch),
              ElementsAre(*tokenizer.find_added("<thinking>")));
  // Leftmost first: "the<" begins before "<think>".
  EXPECT_THAT(
      tokenizer.encode("the<think>", AddedTokens::kMatch),
      ElementsAre(*tokenizer.find_added("the<"), *tokenizer.find("th"), 'i', 'n', 'k', '>'));
}

TEST(Tokenizer, PlainTextNeverBecomesAnAddedToken) {
  const Tokenizer tokenizer = small().make();
  for (const int32_t id : tokenizer.encode("<｜User｜><think>the<", AddedTokens::kPlain)) {
    EXPECT_FALSE(tokenizer.is_added(id));
  }
}

TEST(Tokenizer, TokensByIdAndByText) {
  const Tokenizer tokenizer = small().make();
  EXPECT_EQ(tokenizer.size(), 256U + 5 + 4);
  const int32_t ni = *tokenizer.find("ä½ł");
  EXPECT_EQ(tokenizer.token_bytes(ni), "你");
  EXPECT_EQ(tokenizer.raw_token(ni), "ä½ł");
  EXPECT_EQ(tokenizer.raw_token(*tokenizer.find("<think>")), "<think>");
  EXPECT_EQ(tokenizer.find("你"), std::nullopt);  // Spellings, not texts.
  EXPECT_EQ(tokenizer.find(""), std::nullopt);
  EXPECT_EQ(tokenizer.find_added("the"), std::nullopt);
}

TEST(Tokenizer, DecodeRefusesForeignIds) {
  const Tokenizer tokenizer = small().make();
  const int32_t last = static_cast<int32_t>(tokenizer.size()) - 1;
  EXPECT_EQ(*tokenizer.decode(std::vector<int32_t>{104, last}), "hthe<");
  for (const int32_t bad : {-1, last + 1, INT32_MAX, INT32_MIN}) {
    const auto text = tokenizer.decode(std::vector<int32_t>{0, bad});
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(text.error().message, HasSubstr("ids[1]"));
  }
}

std::string random_bytes(base::SplitMix64& random) {
  static const std::string parts[] = {
      "the",  " ",        "你", "<think>", "<｜User｜>",        "\xFF",
      "\xE4", "\xE4\xBD", "\n", "1234",    std::string(1, '\0')};
  std::string out;
  for (uint64_t i = random.below(40); i > 0; --i) {
    out += random.below(3) == 0 ? std::string(1, static_cast<char>(random.below(256)))
                                : parts[random.below(std::size(parts))];
  }
  return out;
}

TEST(Tokenizer, AnyBytesRoundTrip) {
  const Tokenizer tokenizer = small().make();
  base::SplitMix64 random(17);
  for (int i = 0; i < 3000; ++i) {
    const std::string bytes = random_bytes(random);
    for (const AddedTokens added : {AddedTokens::kMatch, AddedTokens::kPlain}) {
      ASSERT_EQ(*tokenizer.decode(tokenizer.encode(bytes, added)), bytes);
    }
  }
}

TEST(Tokenizer, ManyThreadsEncodeAtOnce) {
  const Tokenizer tokenizer = small().make();
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> expected;
  base::SplitMix64 random(23);
  for (int i = 0; i < 200; ++i) {
    texts.push_back(random_bytes(random));
    expected.push_back(tokenizer.encode(texts.back(), AddedTokens::kMatch));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(tokenizer.encode(texts[i], AddedTokens::kMatch), expected[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, OpenNamesTheFile) {
  const auto missing = Tokenizer::open("/nonexistent/tokenizer.json");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().describe(), HasSubstr("/nonexistent/tokenizer.json"));
  const base::TempDir dir;
  const Path path = dir.path() / "tokenizer.json";
  ASSERT_TRUE(base::write_file_atomic(path, R"({"pre_tokenizer": {"type": "Bert"}})"));
  const auto bad = Tokenizer::open(path);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().describe(),
            path.string() +
                ": tokenizer.pre_tokenizer: type \"Bert\" is not supported, "
                "expected Sequence");
}

TEST(Tokenizer, GoldenEncodings) {
  const Path golden = Path(THIMBLE_SOURCE_DIR) / "tests" / "golden";
  const auto tokenizer = Tokenizer::open(golden / "t1_mini" / "model" / "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
  EXPECT_EQ(tokenizer->size(), 448U);
  const auto text = base::read_file(golden / "formats" / "engram_normalize.json");
  ASSERT_TRUE(text) << text.error().describe();
  const auto cases = nlohmann::json::parse(*text)["encode"]["cases"];
  ASSERT_EQ(cases.size(), 3U);
  for (const auto& sample : cases) {
    EXPECT_EQ(tokenizer->encode(sample["text"].get<std::string>(), AddedTokens::kMatch),
              sample["ids"].get<std::vector<int32_t>>());
  }
}

}  // namespace
}  // namespace thimble::text
