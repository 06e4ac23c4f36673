// Aim: the Engram map of the tiny golden tokenizer equals the one the reference used.
#include <gtest/gtest.h>

#include "tests/golden/golden.h"
#include "text/token_map.h"

namespace thimble::text {
namespace {

TEST(GoldenTokenMap, EqualsTheReference) {
  const auto tokenizer = Tokenizer::open(golden::path("t1_mini/model/tokenizer.json"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
  const auto map = build_token_map(*tokenizer);
  ASSERT_TRUE(map);
  const auto inputs = golden::open("t1_mini/vectors/inputs.safetensors");
  const auto expected = golden::view(inputs, "token_map").as<int32_t>();
  ASSERT_EQ(map->class_of.size(), expected.size());
  for (size_t id = 0; id < expected.size(); ++id) EXPECT_EQ(map->class_of[id], expected[id]) << id;
}

}  // namespace
}  // namespace thimble::text
