// Aim: JSON in prompts is printed as Python prints it, keeps the order of keys and the spelling of
// numbers, and nothing that is not JSON passes. Method: values whose printing was taken from
// Python's json.dumps(ensure_ascii=False) but for numbers; slices; texts with one fault each.
#include "text/json_text.h"

#include <gtest/gtest.h>

namespace thimble::text {
namespace {

TEST(JsonText, PrintsAsPythonDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "{}"},
      {" [ ] ", "[]"},
      {R"({"b":1,"a":[1,2,{"c":null}]})", R"({"b": 1, "a": [1, 2, {"c": null}]})"},
      {R"({ "x" : [ [ ] , { } ] , "x" : true })", R"({"x": [[], {}], "x": true})"},
      {R"("\u00e9\u4e16\ud83d\ude00 \/ \u0001\u007f\b\f\n\r\t\"\\")",
       "\"é世😀 / \\u0001\x7f\\b\\f\\n\\r\\t\\\"\\\\\""},
      {"[1.0,1e5,-0,1E+2,0.10,123456789012345678901234567890]",
       "[1.0, 1e5, -0, 1E+2, 0.10, 123456789012345678901234567890]"},
      {"false", "false"},
  };
  for (const auto& [json, printed] : cases) {
    const auto out = python_json(json);
    ASSERT_TRUE(out.has_value()) << json << ": " << out.error().describe();
    EXPECT_EQ(*out, printed);
    EXPECT_EQ(python_json(*out).value_or("?"), printed) << "printing twice changes nothing";
  }
}

TEST(JsonText, SlicesAreAsSpelledAndInOrder) {
  const auto members = json_members(R"( {"z": 1.0 , "a\n":[1,{"b" : 2}], "z":"\u0041"} )");
  ASSERT_TRUE(members.has_value());
  ASSERT_EQ(members->size(), 3u);
  EXPECT_EQ((*members)[0].key, "z");
  EXPECT_EQ((*members)[0].value, "1.0");
  EXPECT_EQ((*members)[1].key, "a\n");
  EXPECT_EQ((*members)[1].value, R"([1,{"b" : 2}])");
  EXPECT_EQ(*json_string_value((*members)[2].value), "A");
  const auto elements = json_elements((*members)[1].value);
  ASSERT_TRUE(elements.has_value());
  ASSERT_EQ(elements->size(), 2u);
  EXPECT_EQ((*elements)[1], R"({"b" : 2})");
  EXPECT_TRUE(json_members("{}")->empty());
  EXPECT_TRUE(json_elements("[ ]")->empty());
}

TEST(JsonText, RefusesWhatIsNotJson) {
  const std::string deep(200, '[');
  for (const std::string& json : {std::string(),
                                  std::string("{"),
                                  std::string("[1,]"),
                                  std::string("[1 2]"),
                                  std::string(R"({"a":1,})"),
                                  std::string(R"({"a" 1})"),
                                  std::string("{a:1}"),
                                  std::string("01"),
                                  std::string("1."),
                                  std::string(".5"),
                                  std::string("-"),
                                  std::string("1e"),
                                  std::string("+1"),
                                  std::string("NaN"),
                                  std::string("Infinity"),
                                  std::string("True"),
                                  std::string("nul"),
                                  std::string("\"a"),
                                  std::string("\"\\x\""),
                                  std::string("\"\\u12\""),
                                  std::string("\"\\ud800\""),
                                  std::string("\"\\ud800\\u0041\""),
                                  std::string("\"\n\""),
                                  std::string("\"\xFF\""),
                                  std::string("1 2"),
                                  std::string("'a'"),
                                  deep}) {
    EXPECT_FALSE(python_json(json).has_value()) << json;
  }
  EXPECT_FALSE(json_members("[]").has_value());
  EXPECT_FALSE(json_members("{} {}").has_value());
  EXPECT_FALSE(json_elements("{}").has_value());
  EXPECT_FALSE(json_elements("[1").has_value());
  EXPECT_FALSE(json_string_value("\"a\" b").has_value());
  EXPECT_EQ(python_json("[1,]").error().describe(), "JSON: expected a value at byte 3 of 4");
}

TEST(JsonText, EscapesPieceByPiece) {
  std::string out;
  append_json_escaped("a\"", out);
  append_json_escaped("\n\x02é", out);
  EXPECT_EQ(out, "a\\\"\\n\\u0002é");
  EXPECT_EQ(*json_string_value("\"" + out + "\""), "a\"\n\x02é");
}

}  // namespace
}  // namespace thimble::text
