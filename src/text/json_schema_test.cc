// Aim: a grammar's language is JSON that fits the schema, all of it that is promised and nothing
// else; what is not understood is refused by name and place; hostile schemas end in an error.
// Method: texts by hand, read byte by byte: each must be taken or refused, and be complete or not.
#include "text/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thimble::text {
namespace {

using testing::HasSubstr;

Grammar compiled(const std::string& schema) {
  auto grammar = compile_json_schema(schema);
  EXPECT_TRUE(grammar.has_value()) << schema << ": " << grammar.error().describe();
  return grammar ? std::move(*grammar) : json_object_grammar();
}

// "all": a complete text. "part": the beginning of one. "none": neither.
std::string reads(const Grammar& grammar, std::string_view text) {
  GrammarState state = grammar.begin();
  if (!grammar.read(state, text)) return "none";
  return Grammar::is_complete(state) ? "all" : "part";
}

void expect_texts(const std::string& schema, const std::vector<std::string>& in,
                  const std::vector<std::string>& out) {
  const Grammar grammar = compiled(schema);
  for (const std::string& text : in) {
    EXPECT_EQ(reads(grammar, text), "all") << schema << " and " << text;
  }
  for (const std::string& text : out) {
    EXPECT_NE(reads(grammar, text), "all") << schema << " and " << text;
  }
}

std::string refusal(const std::string& schema) {
  const auto grammar = compile_json_schema(schema);
  return grammar ? "compiled" : grammar.error().describe();
}

TEST(JsonSchema, AnyValueIsJson) {
  expect_texts("true",
               {"null", "true", "false", "0", "-1.5e+10", R"("a\n\u00e9é")", "[]", "{}",
                R"({"a": [1, {"b": null}], "c":"d"})", "[\n  1,\n  2\n]", "{ }"},
               {"", "nul", "01", "1.", "+1", "1e", "1e400", "[1,]", "[,1]", "{\"a\"}", "{a:1}",
                "\"\t\"", " 1", "1 ", "[1]]", R"("\x")", "{\"a\":1,}", "\"\xC3\"", "'a'"});
}

TEST(JsonSchema, StringsAreWholeCharacters) {
  const std::string schema = R"({"type": "string"})";
  expect_texts(schema,
               {R"("\ud83d\ude00")", "\"\xF0\x9F\x98\x80\"", "\"\xED\x9F\xBF\"", "\"\x7F\""},
               {R"("\ud83d")", R"("\ud83dx")", R"("\ude00")", R"("\ud83d\u0041")",
                "\"\xED\xA0\x80\"", "\"\xC0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE0\x80\x80\"",
                "\"\x80\"", std::string("\"\0\"", 3), "\"\n\""});
  const Grammar grammar = compiled(schema);
  EXPECT_EQ(reads(grammar, R"("\ud83d)"), "part");
  EXPECT_EQ(reads(grammar, R"("\ud83d\ude)"), "part");
  EXPECT_EQ(reads(grammar, R"("\ude)"), "none");
}

TEST(JsonSchema, LengthsCountCharacters) {
  expect_texts(R"({"type": "string", "minLength": 2, "maxLength": 3})",
               {R"("ab")", R"("é\n")", R"("\ud83d\ude00é")", "\"😀😀😀\""},
               {R"("")", R"("a")", R"("abcd")", R"("\ud83d\ude00")", "\"😀\""});
  expect_texts(R"({"type": "string", "minLength": 1000000})", {}, {R"("a")"});
  expect_texts(R"({"maxLength": 0})", {R"("")"}, {R"("a")"});
}

TEST(JsonSchema, SpaceIsBounded) {
  const Grammar grammar = compiled("true");
  EXPECT_EQ(reads(grammar, "[ 1, 2 ]"), "all");
  EXPECT_EQ(reads(grammar, "[  1]"), "none");
  EXPECT_EQ(reads(grammar, "[\n" + std::string(32, ' ')), "part");
  EXPECT_EQ(reads(grammar, "[\n" + std::string(33, ' ')), "none");
  EXPECT_EQ(reads(grammar, "[1 ,2]"), "none");
}

TEST(JsonSchema, ObjectsHaveTheirPropertiesInOrder) {
  expect_texts(R"({"type": "object", "required": ["b"],
                   "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": true}})",
               {R"({"b":null})", R"({"a":1,"b":null})", R"({"a": 1, "b": null, "c": []})",
                R"({"b":null,"c":{}})"},
               {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"b":null,"d":1})",
                R"({"a":1.5,"b":null})", R"({"c":1})", R"({"b":null,"b":null})"});
  expect_texts(R"({"type": "object", "properties": {"a": true, "b": true}})",
               {"{}", R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"}, {R"({"c":1})", "{,}"});
}

TEST(JsonSchema, OtherPropertiesHaveOtherNames) {
  expect_texts(
      R"({"properties": {"ab": {"type": "null"}, "é": {"type": "null"}, "a\"": {"type": "null"}},
          "additionalProperties": {"type": "integer"}})",
      {"{}", R"({"ab":null})", R"({"ab":null,"abc":1})", R"({"a":1,"b":2})", R"({"":1})",
       R"({"é":null,"è":1})", R"({"éa":3})", R"({"a\"":null})"},
      {R"({"ab":1})", R"({"abc":null})", R"({"a":1,"ab":2})", R"({"é":1})", R"({"\u00e9":1})",
       R"({"a\"":1})", R"({"a":1,"ab":null})"});
  expect_texts(R"({"type": "object", "additionalProperties": {"type": "string"}})",
               {"{}", R"({"x":"y"})", R"({"x":"y","z":""})"}, {R"({"x":1})"});
  expect_texts(R"({"type": "object", "required": ["x"], "additionalProperties": {"type": "null"}})",
               {R"({"x":null})", R"({"x":null,"y":null})"}, {"{}", R"({"y":null})"});
  expect_texts(R"({"type": "object", "required": ["x"]})", {R"({"x":[1],"y":2})"}, {"{}"});
}

TEST(JsonSchema, ArraysHaveTheirItems) {
  expect_texts(R"({"type": "array", "items": {"type": "boolean"}})",
               {"[]", "[true]", "[true, false]"}, {"[1]", "[true,]", "true"});
  expect_texts(R"({"items": {"type": "null"}, "minItems": 2, "maxItems": 3})",
               {"[null,null]", "[null,null,null]"}, {"[]", "[null]", "[null,null,null,null]"});
  expect_texts(R"({"prefixItems": [{"const": 1}, {"const": 2}]})", {"[]", "[1]", "[1,2]"},
               {"[2]", "[1,2,3]"});
  expect_texts(R"({"prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 2})",
               {"[1,2]", "[1,2,2,2]"}, {"[1]", "[]", "[1,1]"});
  expect_texts(R"({"prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 1})", {"[]", "[1]"},
               {"[1,2]"});
  expect_texts(R"({"type": "array", "maxItems": 0})", {"[]", "[ ]"}, {"[1]"});
  expect_texts(R"({"type": "array", "items": [{"const": 1}], "additionalItems": false})", {"[1]"},
               {"[1,1]"});
}

TEST(JsonSchema, ListedValuesAreSpelledOnce) {
  expect_texts(R"({"enum": ["a", "ab", 1, 12, null, {"x": [1, 2]}, "é\n"]})",
               {R"("a")", R"("ab")", "1", "12", "null", R"({"x":[1,2]})", R"("é\n")"},
               {R"("abc")", "2", "123", R"("\u0061")", R"({"x": [1,2]})"});
  expect_texts(R"({"const": false})", {"false"}, {"true", "null"});
  expect_texts(R"({"type": "string", "enum": ["a", 1, null]})", {R"("a")"}, {"1", "null"});
  expect_texts(R"({"enum": ["a"], "nullable": true})", {R"("a")", "null"}, {"1"});
}

TEST(JsonSchema, NumbersLieWithinTheirBounds) {
  expect_texts(R"({"type": "integer"})", {"0", "-0", "-17", "123456789012345678"},
               {"1.0", "1e2", "1234567890123456789", "00"});
  expect_texts(R"({"type": "integer", "minimum": -12, "maximum": 105})",
               {"-12", "-9", "-1", "0", "9", "10", "99", "100", "105"},
               {"-13", "-20", "106", "110", "200", "1000", "007", "1.5"});
  expect_texts(R"({"type": "integer", "exclusiveMinimum": 0})", {"1", "999999"}, {"0", "-1", "-0"});
  expect_texts(R"({"type": "integer", "maximum": -5})", {"-5", "-17"}, {"-4", "0", "5"});
  expect_texts(R"({"type": "number", "minimum": 0, "maximum": 2})", {"0", "0.5", "1.999", "2"},
               {"2.1", "2.0", "-0.1", "3", "1e0"});
  expect_texts(R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})",
               {"0.5", "0.001"}, {"0", "0.0", "0.00", "1", "-0.5", "1.0"});
  expect_texts(R"({"type": "number", "exclusiveMinimum": -2, "maximum": -1})",
               {"-1", "-1.5", "-1.999"}, {"-2", "-2.0", "-0.9", "0", "1"});
}

// Every number of up to four digits against its bounds.
TEST(JsonSchema, EveryBoundIsExact) {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{{0, 0},
                                                                  {7, 7},
                                                                  {1, 10},
                                                                  {0, 255},
                                                                  {98, 1203},
                                                                  {-1, 1},
                                                                  {-1203, -98},
                                                                  {-5, 999},
                                                                  {9, 11}}) {
    const Grammar grammar =
        compiled(fmt::format(R"({{"type":"integer","minimum":{},"maximum":{}}})", low, high));
    for (int n = -1500; n <= 1500; ++n) {
      const bool fits = low <= n && n <= high;
      ASSERT_EQ(reads(grammar, std::to_string(n)) == "all", fits)
          << n << " in " << low << " to " << high;
    }
  }
}

TEST(JsonSchema, AlternativesAndReferences) {
  expect_texts(R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
               {"1", R"("a")"}, {"1.5", R"("ab")", "null"});
  expect_texts(R"({"type": ["integer", "null"]})", {"1", "null"}, {"true"});
  expect_texts(
      R"({"allOf": [{"$ref": "#/definitions/a~1b"}], "definitions": {"a/b": {"const": 1}}})", {"1"},
      {"2"});
  expect_texts(R"({"$ref": "#/$defs/list", "$defs": {"list": {"type": "object",
                   "properties": {"head": {"type": "integer"}, "tail": {"anyOf": [
                   {"$ref": "#/$defs/list"}, {"type": "null"}]}}, "required": ["head", "tail"]}}})",
               {R"({"head":1,"tail":null})", R"({"head":1,"tail":{"head":2,"tail":null}})"},
               {R"({"head":1})", R"({"head":1,"tail":{"head":2}})"});
  expect_texts(R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"});
}

// Two ways that stay open for long are both followed, however deep they nest.
TEST(JsonSchema, AmbiguousAlternativesStayOpen) {
  const std::string schema = R"({"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [{"const": 0},
      {"type": "object", "properties": {"l": {"$ref": "#/$defs/e"}, "op": {"const": "+"}},
       "required": ["l", "op"]},
      {"type": "object", "properties": {"l": {"$ref": "#/$defs/e"}, "op": {"const": "-"}},
       "required": ["l", "op"]}]}}})";
  const Grammar grammar = compiled(schema);
  std::string text = "0";
  for (int i = 0; i < 200; ++i) {
    text = "{\"l\":" + text + (i % 3 == 0 ? ",\"op\":\"+\"}" : ",\"op\":\"-\"}");
  }
  GrammarState state = grammar.begin();
  ASSERT_TRUE(grammar.read(state, std::string_view(text).substr(0, text.size() / 2)));
  EXPECT_LT(state.frames.size(), 2000u);
  EXPECT_EQ(reads(grammar, text), "all");
}

TEST(JsonSchema, OneOfTakesWhatExcludesEachOther) {
  expect_texts(R"({"oneOf": [{"type": "string"}, {"type": "integer"}, {"enum": [null, true]}]})",
               {R"("a")", "1", "null"}, {"false"});
  const std::string shapes = R"({"oneOf": [
      {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      {"type": "object", "properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]}]})";
  expect_texts(shapes, {R"({"kind":"a"})", R"({"kind":"c"})"}, {R"({"kind":"d"})"});
  expect_texts(R"({"oneOf": [
      {"type": "object", "properties": {"a": true}, "required": ["a"],
       "additionalProperties": false},
      {"type": "object", "properties": {"b": true}, "required": ["b"],
       "additionalProperties": false}]})",
               {R"({"a":1})", R"({"b":1})"}, {"{}"});
  EXPECT_THAT(refusal(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})"),
              HasSubstr("#: 'oneOf' whose alternatives 0 and 1 may both fit"));
  EXPECT_THAT(refusal(R"({"oneOf": [{"type": "string"}, {"enum": ["a"]}]})"),
              HasSubstr("both fit"));
  EXPECT_THAT(refusal(R"({"oneOf": [{"$ref": "#"}, {"type": "null"}]})"), HasSubstr("both fit"));
}

TEST(JsonSchema, WhatIsNotUnderstoodIsNamed) {
  EXPECT_EQ(refusal(R"({"properties": {"a/b": {"type": "string", "pattern": "x"}}})"),
            "#/properties/a/b: 'pattern' is not supported");
  EXPECT_EQ(refusal(R"({"items": {"anyOf": [{}, {"format": "email"}]}})"),
            "#/items/anyOf/1: 'format' is not supported");
  for (const char* name :
       {"not", "if", "patternProperties", "propertyNames", "multipleOf", "contains",
        "minProperties", "dependentRequired", "unevaluatedProperties", "$dynamicRef", "no_such"}) {
    EXPECT_EQ(refusal(fmt::format(R"({{"{}": {{}}}})", name)),
              fmt::format("#: '{}' is not supported", name));
  }
  EXPECT_EQ(refusal(R"({"uniqueItems": true})"), "#: 'uniqueItems' is not supported");
  EXPECT_EQ(refusal(R"({"items": true, "uniqueItems": false, "title": 5, "default": {}})"),
            "compiled");
  EXPECT_EQ(refusal(R"({"anyOf": [true], "type": "string"})"),
            "#: 'type' beside 'anyOf' is not supported");
  EXPECT_EQ(refusal(R"({"enum": [1], "const": 1})"), "#: 'const' beside 'enum' is not supported");
  EXPECT_EQ(refusal(R"({"$ref": "other.json#/a"})"),
            "#: '$ref' must be a pointer into this schema, such as #/$defs/NAME");
  EXPECT_EQ(refusal(R"({"$ref": "#/$defs/a"})"), "#: '$ref' leads nowhere: '#/$defs/a'");
  EXPECT_THAT(refusal(R"({"minimum": 0.5})"), HasSubstr("'minimum' must be a whole number"));
  EXPECT_EQ(refusal(R"({"type": "text"})"),
            "#: 'type' must be object, array, string, number, integer, boolean or null, or a list "
            "of these");
  EXPECT_EQ(refusal("[]"), "#: a schema must be an object or a boolean");
  EXPECT_THAT(refusal("{"), HasSubstr("JSON"));
  EXPECT_THAT(refusal(R"({"const": 1e999})"), HasSubstr("not JSON that can be read"));
}

TEST(JsonSchema, WhatNothingFitsIsRefused) {
  EXPECT_EQ(refusal("false"), "#: no value fits 'false'");
  EXPECT_EQ(refusal(R"({"enum": []})"), "#: no value fits");
  EXPECT_EQ(refusal(R"({"type": "string", "enum": [1]})"), "#: no value fits");
  EXPECT_EQ(refusal(R"({"minItems": 2, "maxItems": 1})"),
            "#: 'minItems' is above what there may be");
  EXPECT_EQ(refusal(R"({"minLength": 2, "maxLength": 1})"), "#: 'minLength' is above 'maxLength'");
  EXPECT_EQ(refusal(R"({"minimum": 2, "maximum": 1})"), "#: no number lies within the bounds");
  EXPECT_EQ(refusal(R"({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2})"),
            "#: no number lies within the bounds");
  EXPECT_EQ(refusal(R"({"properties": {}, "required": ["a"], "additionalProperties": false})"),
            "#: 'required' names a property that 'additionalProperties' rules out");
}

TEST(JsonSchema, CyclesWithoutProgressAreRefused) {
  const char* circular = "refers to itself without anything in between";
  EXPECT_THAT(refusal(R"({"$ref": "#"})"), HasSubstr(circular));
  EXPECT_THAT(refusal(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"), HasSubstr(circular));
  EXPECT_THAT(refusal(R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
                          "b": {"$ref": "#/$defs/a"}}})"),
              HasSubstr(circular));
  EXPECT_THAT(refusal(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})"),
              HasSubstr("no value of finite length fits"));
  EXPECT_THAT(refusal(R"({"items": {"$ref": "#"}, "minItems": 1})"),
              HasSubstr("no value of finite length fits"));
}

TEST(JsonSchema, HostileSchemasEndInAnError) {
  std::string deep(100'000, '[');
  EXPECT_THAT(refusal(R"({"const": )" + deep), HasSubstr("nesting"));
  std::string nested = "true";
  for (int i = 0; i < 60; ++i) nested = "{\"items\":" + nested + "}";
  EXPECT_EQ(refusal(nested), "compiled");
  std::string list = R"({"enum": [0)";
  for (int i = 0; i < 20'000; ++i) list += ",\"" + std::to_string(i * 7919) + "x\"";
  EXPECT_THAT(refusal(list + "]}"), HasSubstr("the schema is too large"));
  EXPECT_THAT(refusal(R"({"title": ")" + std::string(300'000, 'x') + "\"}"), HasSubstr("262144"));
  std::string crowd = R"({"anyOf": [{"maxLength": 0})";
  for (int i = 1; i < 300; ++i) crowd += fmt::format(R"(,{{"maxLength": {}}})", i);
  EXPECT_EQ(refusal(crowd + "]}"), "#: too many alternatives for one value");
  std::string doubling = R"({"$ref": "#/$defs/a0", "$defs": {)";
  for (int i = 0; i < 60; ++i) {
    doubling += fmt::format(
        R"("a{}": {{"anyOf": [{{"$ref": "#/$defs/a{}"}}, {{"$ref": "#/$defs/a{}"}}]}},)", i, i + 1,
        i + 1);
  }
  expect_texts(doubling + R"("a60": {"const": 1}}})", {"1"}, {"2"});
}

}  // namespace
}  // namespace thimble::text
