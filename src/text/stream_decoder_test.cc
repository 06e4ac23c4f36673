// Aim: whatever the cuts, the deltas join to the lossy decoding of the whole, and none of them is
// malformed. Method: a text with broken parts, cut at every pair of places; random bytes; ids.
#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/byte_tokenizer.h"
#include "text/utf8.h"

namespace thimble::text {
namespace {

const std::string kMixed =
    "aé你🙂\xF0\x9F\xE4\xBD\xA0\xED\xA0\x80\xC3z\xF4\x8F\xBF\xBF\xF0\x9F\x99";

TEST(StreamDecoder, EveryPairOfCuts) {
  const std::string expected = to_valid_utf8(kMixed);
  for (size_t first = 0; first <= kMixed.size(); ++first) {
    for (size_t second = first; second <= kMixed.size(); ++second) {
      Utf8Stream stream;
      std::string joined;
      const std::string_view all = kMixed;
      for (const auto part :
           {all.substr(0, first), all.substr(first, second - first), all.substr(second)}) {
        const std::string delta = stream.push(part);
        ASSERT_TRUE(is_valid_utf8(delta));
        joined += delta;
      }
      joined += stream.finish();
      ASSERT_EQ(joined, expected) << first << " " << second;
    }
  }
}

TEST(StreamDecoder, RandomBytesOneAtATime) {
  base::SplitMix64 random(29);
  constexpr std::string_view kBytes = "a\x80\xBF\xC2\xE0\xA0\xED\x9F\xEF\xF0\x90\xF4\x8F\xFF";
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (uint64_t i = random.below(12); i > 0; --i) bytes += kBytes[random.below(kBytes.size())];
    Utf8Stream stream;
    std::string joined;
    for (const char byte : bytes) joined += stream.push({&byte, 1});
    joined += stream.finish();
    ASSERT_EQ(joined, to_valid_utf8(bytes));
  }
}

TEST(StreamDecoder, TextComesWithTheLastByteAndNotLater) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.push("\x99"), "");
  EXPECT_EQ(stream.push("\x82"), "🙂");
  EXPECT_EQ(stream.push("\xE4"), "");
  EXPECT_EQ(stream.push("x"), "\uFFFDx");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("\xC3"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, Ids) {
  const auto tokenizer = Tokenizer::parse(make_byte_tokenizer_json());
  ASSERT_TRUE(tokenizer);
  StreamDecoder decoder(*tokenizer);
  std::string joined;
  for (const int32_t id : tokenizer->encode("né<think>🙂", AddedTokens::kMatch)) {
    const auto delta = decoder.push(id);
    ASSERT_TRUE(delta);
    joined += *delta;
  }
  EXPECT_EQ(joined + decoder.finish(), "né<think>🙂");
  for (const int32_t bad : {-1, static_cast<int32_t>(tokenizer->size())}) {
    EXPECT_FALSE(decoder.push(bad));
  }
}

}  // namespace
}  // namespace thimble::text
