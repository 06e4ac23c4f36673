// Aim: a text of the grammar is a block that CallParser reads to its end, of calls that are on
// offer with arguments that fit their schemas, and the beginning of a text is the beginning of such
// a block; schemas that cannot be held to are refused with tool and place. Method: blocks by hand,
// each taken or refused; schemas from a seed and a stand-in for a model that picks any token it
// may, judged by CallParser, nlohmann's parser and a second validator.
#include "text/call_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/byte_tokenizer.h"
#include "text/call_parser.h"
#include "text/json_schema.h"
#include "text/schema_testing.h"

namespace thimble::text {
namespace {

using testing::HasSubstr;

Tool tool(const std::string& name, const std::string& parameters) {
  return *make_tool(R"({"name": ")" + name + R"(", "parameters": )" + parameters + "}");
}

// With M for the marker.
std::string marked(std::string text) {
  std::replace(text.begin(), text.end(), 'M', CallParser::kMarker);
  return text;
}

// "all": a complete text. "part": the beginning of one. "none": neither.
std::string reads(const Grammar& grammar, const std::string& text) {
  GrammarState state = grammar.begin();
  if (!grammar.read(state, marked(text))) return "none";
  if (!Grammar::is_complete(state)) return "part";
  return state.threads.empty() ? "all" : "all, and more";
}

Grammar compiled(const std::vector<Tool>& tools, const ForcedCall& forced = {},
                 CallCount count = CallCount::kOneOrMore) {
  auto grammar = compile_calls(tools, forced, count);
  EXPECT_TRUE(grammar.has_value()) << grammar.error().describe();
  return grammar ? std::move(*grammar) : json_object_grammar();
}

std::string refusal(const std::string& parameters) {
  const auto grammar = compile_calls(std::vector{tool("f", parameters)}, {}, CallCount::kOne);
  return grammar ? "compiled" : grammar.error().describe();
}

// One call of `f`: its parameters as they stand, each on a line of its own.
std::string call(const std::string& parameters, const std::string& name = "f") {
  return "<M invoke name=\"" + name + "\">\n" + parameters + "\n</M invoke>";
}
std::string text(const std::string& key, const std::string& value) {
  return "<M parameter name=\"" + key + "\" string=\"true\">" + value + "</M parameter>";
}
std::string json(const std::string& key, const std::string& value) {
  return "<M parameter name=\"" + key + "\" string=\"false\">" + value + "</M parameter>";
}
const std::string kEnd = "\n</M calls>";

void expect_parameters(const std::string& schema, const std::vector<std::string>& in,
                       const std::vector<std::string>& out) {
  const Grammar grammar = compiled({tool("f", schema)});
  for (const std::string& one : in) {
    EXPECT_EQ(reads(grammar, call(one) + kEnd), "all") << schema << " and " << one;
  }
  for (const std::string& one : out) {
    EXPECT_EQ(reads(grammar, call(one) + kEnd), "none") << schema << " and " << one;
  }
}

TEST(CallGrammar, StringsStandAsTheyAreAndOthersAreJson) {
  expect_parameters(
      R"({"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}},
          "required": ["s", "n"]})",
      {text("s", "") + "\n" + json("n", "6"),
       text("s", "a \"b\\ </ <x>\n\té😀") + "\n" + json("n", "-1")},
      {text("s", "a"), json("n", "6"), "", json("s", "\"a\"") + "\n" + json("n", "6"),
       text("s", "a") + "\n" + text("n", "6"), text("s", "a") + "\n" + json("n", "1.5"),
       text("s", "a") + json("n", "6"), json("n", "6") + "\n" + text("s", "a"),
       text("s", "a") + "\n" + json("n", "6") + "\n", text("s", "aMb") + "\n" + json("n", "6"),
       text("s", "\xC3") + "\n" + json("n", "6"),
       text("s", "a") + "\n" + json("n", "6") + "\n" + json("n", "6")});
}

TEST(CallGrammar, EitherKindWhereASchemaHasBoth) {
  expect_parameters(R"({"type": "object", "properties": {"a": {"type": ["string", "null"]}}})",
                    {"", text("a", "null"), json("a", "null")},
                    {json("a", "\"x\""), json("a", "1"), json("a", "")});
  expect_parameters(
      R"({"type": "object", "properties": {"a": {"enum": ["x", "", 1, null]}}, "required": ["a"]})",
      {text("a", "x"), text("a", ""), json("a", "1"), json("a", "null")},
      {text("a", "1"), text("a", "y"), json("a", "\"x\""), ""});
  expect_parameters(
      R"({"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/t"},
          {"type": "array", "items": {"$ref": "#/$defs/t"}}, {"const": 2}], "nullable": true}},
          "$defs": {"t": {"type": "string", "minLength": 2, "maxLength": 3}}})",
      {text("a", "ab"), text("a", "\n\"é"), json("a", R"(["ab"])"), json("a", "2"),
       json("a", "null")},
      {text("a", "a"), text("a", "abcd"), json("a", R"(["a"])"), json("a", R"("ab")")});
  expect_parameters(R"({"type": "object", "properties": {"a": {}}})",
                    {text("a", "1"), json("a", "1"), json("a", R"({"b": ["c"]})")},
                    {json("a", "\"x\"")});
}

TEST(CallGrammar, UnlistedParametersComeOnceIfAtAll) {
  const std::string open =
      R"({"type": "object", "properties": {"ab": {"const": 1}}, "additionalProperties":
          {"type": ["string", "integer"]}})";
  expect_parameters(
      open,
      {"", json("ab", "1"), text("a", "x"), json("abc", "7"),
       json("ab", "1") + "\n" + text("é", "")},
      {json("", "1"), json("ab", "7"), text("ab", "x"), json("a", "true"),
       text("a", "x") + "\n" + text("b", "x"), text("a", "x") + "\n" + json("ab", "1"),
       json("a\"b", "1"), json("a\\b", "1"), json(std::string(66, 'x'), "1")});
  expect_parameters(R"({"type": "object"})", {"", json("a", "[1]")},
                    {json("a", "1") + "\n" + json("b", "1")});
  for (const char* closed : {"{}", R"({"type": "object", "properties": {}})",
                             R"({"type": "object", "additionalProperties": false})"}) {
    expect_parameters(closed, {""}, {json("a", "1"), text("a", "x")});
  }
}

TEST(CallGrammar, OnlyToolsOnOfferAndAsManyCallsAsMayCome) {
  const std::vector<Tool> tools = {tool("f", "{}"), tool("fg", R"({"type": "object",
      "properties": {"s": {"type": "string"}}, "required": ["s"]})")};
  const std::string second = call(text("s", "x"), "fg");
  const Grammar many = compiled(tools);
  for (const std::string& block : {call(""), second, call("") + "\n" + second + "\n" + second}) {
    EXPECT_EQ(reads(many, block + kEnd), "all") << block;
    EXPECT_EQ(reads(many, block), "part") << block;
  }
  for (const std::string block : {"", "\n", "<M invoke name=\"g\">", "<M invoke name=\"f\" ", "x",
                                  "<M invoke name=\"fg\">\n\n", "<M calls>"}) {
    EXPECT_EQ(reads(many, block + kEnd), "none") << block;
  }
  EXPECT_EQ(reads(many, call("") + second), "none");
  const Grammar one = compiled(tools, {}, CallCount::kOne);
  EXPECT_EQ(reads(one, second + kEnd), "all");
  EXPECT_EQ(reads(one, call("") + "\n" + second), "none");
}

TEST(CallGrammar, TheNamedOneIsOpenAlready) {
  const std::vector<Tool> tools = {tool("f", R"({"type": "object", "properties": {"a": false}})"),
                                   tool("g", R"({"type": "object", "properties": {"n":
                                       {"type": "boolean"}}, "required": ["n"]})")};
  const Grammar grammar = compiled(tools, {"g"});
  const std::string rest = json("n", "true") + "\n</M invoke>";
  EXPECT_EQ(reads(grammar, rest + kEnd), "all");
  EXPECT_EQ(reads(grammar, rest + "\n" + call(json("n", "false"), "g") + kEnd), "all");
  EXPECT_EQ(reads(grammar, rest + "\n" + call("", "f")), "none");
  EXPECT_EQ(reads(grammar, call(json("n", "true"), "g")), "none");
  EXPECT_EQ(reads(grammar, kEnd), "none");
}

TEST(CallGrammar, WhatCannotBeHeldToIsRefusedWithToolAndPlace) {
  EXPECT_EQ(refusal(R"({"type": "object", "properties": {"a": {"type": "string",
                        "pattern": "x"}}})"),
            "f: #/properties/a: 'pattern' is not supported");
  EXPECT_EQ(refusal(R"({"type": "object", "properties": {"a": {"anyOf": [{"format": "date"}]}}})"),
            "f: #/properties/a/anyOf/0: 'format' is not supported");
  EXPECT_EQ(refusal(R"({"type": "object", "minProperties": 1})"),
            "f: #: 'minProperties' is not supported");
  EXPECT_EQ(refusal(R"({"type": "object", "enum": [{}]})"),
            "f: #: parameters of a call must be an object with its properties");
  EXPECT_THAT(refusal(R"({"type": "object", "properties": {"a\"b": {}}})"),
              HasSubstr("f: #: the parameter 'a\"b' must have a name of 1 to 1024 bytes"));
  EXPECT_THAT(refusal(R"({"type": "object", "required": [""]})"), HasSubstr("#: the parameter ''"));
  EXPECT_EQ(refusal(R"({"type": "object", "properties": {"a": {"enum": []}}})"),
            "f: #/properties/a: no value fits");
  EXPECT_EQ(refusal(R"({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}})"),
            "f: #/properties/a: refers to itself without anything in between");
  EXPECT_EQ(refusal(R"({"type": "object", "properties": {"a": {"type": "array", "minItems": 1,
                        "items": {"$ref": "#/properties/a"}}}})"),
            "f: #/properties/a: no value of finite length fits");
  std::string wide = R"({"type": "object", "properties": {"a": {"enum": ["x")";
  for (int i = 0; i < 9000; ++i) wide += fmt::format(R"(,"{:010}")", i * 7919);
  EXPECT_THAT(refusal(wide + "]}}}"), HasSubstr("the schema is too large"));
}

// Whatever a schema made of itself says: deep, circular, many.
TEST(CallGrammar, HostileSchemasEndInAnError) {
  std::string chain =
      R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": {)";
  for (int i = 0; i < 5000; ++i)
    chain += fmt::format(R"("{}": {{"$ref": "#/$defs/{}"}},)", i, i + 1);
  EXPECT_THAT(refusal(chain + R"("5000": {"type": "null"}}})"), HasSubstr("f: "));
  std::string fans = R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": {)";
  for (int i = 0; i < 30; ++i) {
    fans += fmt::format(
        R"("{0}": {{"anyOf": [{{"$ref": "#/$defs/{1}"}},{{"$ref": "#/$defs/{1}"}}]}},)", i, i + 1);
  }
  EXPECT_EQ(refusal(fans + R"("30": {"type": "string"}}})"), "compiled");
}

class SampledCalls : public testing::Test {
 protected:
  Tokenizer tokenizer_ = *Tokenizer::parse(make_byte_tokenizer_json());
  std::shared_ptr<const TokenTrie> trie_ = std::make_shared<TokenTrie>(tokenizer_);

  // Until nothing may follow; "" when it became too long.
  std::string sample(const Grammar& grammar, base::SplitMix64& random) {
    TokenMasker masker(std::make_shared<Grammar>(grammar), trie_);
    GrammarState state = grammar.begin();
    std::vector<uint64_t> bits;
    std::string out;
    for (int step = 0; step < 800; ++step) {
      masker.allowed(state, bits);
      const auto token = pick_token(*trie_, bits, random);
      if (!token) return out;
      EXPECT_TRUE(masker.accept(state, *token));
      out += trie_->bytes_of(*token);
    }
    return "";
  }

  // Objects of up to five properties; what SchemaMaker defines stands at the root.
  static TestJson parameters(uint64_t seed) {
    base::SplitMix64 random(seed);
    TestJson out = {{"type", "object"}, {"properties", TestJson::object()}};
    for (const char* name : {"a", "ab", "n\xC3\xA4me", "q'", "z"}) {
      if (random.below(3) == 0) continue;
      TestJson schema = SchemaMaker(random.next()).make();
      if (schema.is_object() && schema.contains("$defs")) {
        out["$defs"] = schema["$defs"];
        schema.erase("$defs");
      }
      out["properties"][name] = schema;
      if (random.below(2) == 0) out["required"].push_back(name);
    }
    if (random.below(3) == 0) out["additionalProperties"] = {{"type", {"string", "integer"}}};
    return out;
  }
};

TEST_F(SampledCalls, ParseToArgumentsThatFit) {
  int compiled = 0;
  int complete = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const TestJson schema = parameters(seed);
    const ForcedCall forced{seed % 2 == 0 ? "" : "f"};
    const auto grammar = compile_calls(std::vector{tool("f", schema.dump()), tool("g", "{}")},
                                       forced, CallCount::kOneOrMore);
    if (!grammar) {
      EXPECT_THAT(grammar.error().describe(), HasSubstr("both fit")) << schema;
      continue;
    }
    ++compiled;
    base::SplitMix64 random(seed);
    for (int i = 0; i < 3; ++i) {
      const std::string block = sample(*grammar, random);
      if (block.empty()) continue;
      ++complete;
      CallParser parser;
      CallText out;
      parser.push(marked("\n\n<M calls>\n") +
                      (forced.name.empty() ? "" : marked("<M invoke name=\"f\">\n")),
                  out);
      parser.push(block, out);
      ASSERT_TRUE(parser.closed() && !parser.wasted()) << schema << " gave " << block;
      std::vector<std::string> arguments;
      std::vector<std::string> names;
      for (const CallDelta& delta : out.calls) {
        if (delta.name) names.push_back(*delta.name), arguments.emplace_back();
        arguments.back() += delta.arguments;
      }
      ASSERT_EQ(parser.completed(), names.size());
      for (size_t n = 0; n < names.size(); ++n) {
        const TestJson value = TestJson::parse(arguments[n], nullptr, false);
        ASSERT_TRUE(value.is_object()) << block;
        if (names[n] == "g") {
          EXPECT_TRUE(value.empty()) << block;
        } else {
          ASSERT_TRUE(SchemaValidator(schema).fits(value)) << schema << " gave " << block;
        }
      }
    }
  }
  EXPECT_GT(compiled, 30);
  EXPECT_GT(complete, compiled);
}

TEST(AnswerOrCalls, IsEitherAndNotBoth) {
  const Grammar grammar = answer_or_calls(*compile_json_schema(R"({"enum": [12, 1]})"));
  EXPECT_EQ(reads(grammar, "1"), "all, and more");
  EXPECT_EQ(reads(grammar, "12"), "all");
  for (const char* no : {"2", "1\n\n<M calls>", "\n\n<calls>", "\n<M", "\n\n<M invoke", "M"}) {
    EXPECT_EQ(reads(grammar, no), "none") << no;
  }
  EXPECT_EQ(reads(grammar, "\n\n<M calls"), "part");
  EXPECT_EQ(reads(grammar, "\n\n<M calls>\nwhat M ever \xC3"), "all, and more");
  EXPECT_EQ(reads(answer_or_calls(json_object_grammar()), R"({"a": [1, {"b": "c"}]})"), "all");
}

}  // namespace
}  // namespace thimble::text
