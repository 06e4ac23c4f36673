// Aim: tools and calls are taken from JSON as they are, or refused by the key at fault. Method:
// objects with one fault each; arguments with every type. Prompts: chat_format_test.cc.
#include "text/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thimble::text {
namespace {

using testing::HasSubstr;

TEST(Tools, RecipeLineHasThreeKeysRefLineTheObject) {
  const auto tool = make_tool(R"({"parameters":null,"strict":false,"name":"f","z":[1.0]})");
  ASSERT_TRUE(tool.has_value());
  EXPECT_EQ(tool->name, "f");
  EXPECT_EQ(recipe_tool_line(*tool), R"({"name": "f", "description": "", "parameters": {}})");
  EXPECT_EQ(ref_tool_line(*tool),
            R"({"parameters": null, "strict": false, "name": "f", "z": [1.0]})");
  const auto full = make_tool(
      R"({"description":"d\u00e9\n","name":"g-1_A","parameters":{"type":"object","x":1e3}})");
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(
      recipe_tool_line(*full),
      R"({"name": "g-1_A", "description": "dé\n", "parameters": {"type": "object", "x": 1e3}})");
}

TEST(Tools, AreRefusedByTheKeyAtFault) {
  const auto error = [](const char* json) {
    const auto tool = make_tool(json);
    return tool ? "none" : tool.error().describe();
  };
  EXPECT_THAT(error("[]"), HasSubstr("JSON: expected '{'"));
  EXPECT_THAT(error("{}"), HasSubstr("name: expected 1 to 128 letters"));
  EXPECT_THAT(error(R"({"name":"a b"})"), HasSubstr("name: expected"));
  EXPECT_THAT(error(R"({"name":""})"), HasSubstr("name: expected"));
  EXPECT_THAT(error(R"({"name":7})"), HasSubstr("name: expected"));
  EXPECT_THAT(error(R"({"name":"f","description":[]})"),
              HasSubstr("description: expected a string"));
  EXPECT_THAT(error(R"({"name":"f","parameters":"x"})"), HasSubstr("parameters: expected a JSON"));
  EXPECT_THAT(error(R"({"name":"f","parameters":{"type":"array"}})"),
              HasSubstr("parameters.type: expected \"object\", found \"array\""));
  EXPECT_THAT(error(R"({"name":"f","parameters":{"x":1}})"), HasSubstr("found none"));
  EXPECT_EQ(error(R"({"name":"f","parameters":{}})"), "none");
}

TEST(Tools, ParametersKeepTypeOrderAndSpelling) {
  const auto found =
      call_parameters({"", "f", R"( {"s":"a","n":1.50,"o":{"a":[1,2]}, "b":true} )"});
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 4u);
  EXPECT_EQ((*found)[0].key, "s");
  EXPECT_TRUE((*found)[0].is_string);
  EXPECT_EQ((*found)[0].value, "a");
  EXPECT_EQ((*found)[1].value, "1.50");
  EXPECT_FALSE((*found)[1].is_string);
  EXPECT_EQ((*found)[2].value, R"({"a": [1, 2]})");
  EXPECT_EQ((*found)[2].as_sent, R"({"a":[1,2]})");
  EXPECT_EQ((*found)[3].value, "true");
  EXPECT_TRUE(call_parameters({"", "f", " "})->empty());
}

}  // namespace
}  // namespace thimble::text
