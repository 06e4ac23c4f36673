// Aim: what the file says is taken exactly or refused with the place and both sides named.
// Method: one good small file, broken in one place at a time.
#include "text/internal/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "text/testing.h"

namespace thimble::text {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json good() {
  SmallTokenizer small;
  small.merges = {{"a", "b"}, {"ab", "c"}};
  small.added = {"<x>", "<y>"};
  return small.json();
}

std::string error_of(const json& file) {
  const auto spec = parse_tokenizer_json(file.dump());
  return spec ? "accepted" : spec.error().message;
}

TEST(TokenizerJson, GoodFileIsTakenAsItIs) {
  const auto spec = parse_tokenizer_json(good().dump());
  ASSERT_TRUE(spec) << spec.error().describe();
  ASSERT_EQ(spec->bytes.size(), 260U);
  EXPECT_EQ(spec->bytes[256], "ab");
  EXPECT_EQ(spec->bytes[257], "abc");
  EXPECT_EQ(spec->bytes[258], "<x>");
  EXPECT_EQ(spec->kinds[257], TokenKind::kBytes);
  EXPECT_EQ(spec->kinds[258], TokenKind::kAdded);
  ASSERT_EQ(spec->merges.size(), 2U);
  EXPECT_EQ(spec->merges[1].left, 256);
  EXPECT_EQ(spec->merges[1].right, 'c');
  EXPECT_EQ(spec->merges[1].result, 257);
  EXPECT_EQ(spec->split_patterns, released_patterns());
}

TEST(TokenizerJson, MergesMayBePairs) {
  json file = good();
  file["model"]["merges"] = json::array({json::array({"a", "b"}), json::array({"ab", "c"})});
  EXPECT_TRUE(parse_tokenizer_json(file.dump()));
}

TEST(TokenizerJson, AddedTokenMayAlsoBeInTheVocabulary) {
  json file = good();
  file["model"]["vocab"]["<｜bos｜>"] = 260;
  file["added_tokens"].push_back({{"id", 260}, {"content", "<｜bos｜>"}});
  const auto spec = parse_tokenizer_json(file.dump());
  ASSERT_TRUE(spec) << spec.error().describe();
  EXPECT_EQ(spec->kinds[260], TokenKind::kAdded);
}

TEST(TokenizerJson, VocabularyTokenOutsideTheAlphabetIsLiteral) {
  json file = good();
  file["model"]["vocab"]["a b"] = 260;
  const auto spec = parse_tokenizer_json(file.dump());
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->kinds[260], TokenKind::kLiteral);
  EXPECT_EQ(spec->bytes[260], "a b");
}

struct Broken {
  const char* message;  // Part of the expected error.
  std::function<void(json&)> change;
};

TEST(TokenizerJson, EachBrokenPlaceIsNamed) {
  const Broken cases[] = {
      {"tokenizer: found an array, expected an object", [](json& f) { f = json::array({1}); }},
      {"tokenizer: field \"model\" is missing", [](json& f) { f.erase("model"); }},
      {"tokenizer.model: found null, expected an object", [](json& f) { f["model"] = nullptr; }},
      {"tokenizer.model: type \"WordPiece\"", [](json& f) { f["model"]["type"] = "WordPiece"; }},
      {"tokenizer.model.unk_token: found a string", [](json& f) { f["model"]["unk_token"] = "u"; }},
      {"tokenizer.model.dropout: found a number with a fraction",
       [](json& f) { f["model"]["dropout"] = 0.1; }},
      {"tokenizer.model.byte_fallback: true", [](json& f) { f["model"]["byte_fallback"] = true; }},
      {"tokenizer.model.ignore_merges: true", [](json& f) { f["model"]["ignore_merges"] = true; }},
      {"tokenizer.model.ignore_merges: found a string",
       [](json& f) { f["model"]["ignore_merges"] = "no"; }},
      {"tokenizer.model.vocab: found an array",
       [](json& f) {
         f["model"]["vocab"] = {1, 2};
       }},
      {"vocab[\"ab\"]: found a string, expected an integer",
       [](json& f) { f["model"]["vocab"]["ab"] = "256"; }},
      {"vocab[\"ab\"]: found a number with a fraction",
       [](json& f) { f["model"]["vocab"]["ab"] = 256.0; }},
      {"vocab[\"ab\"]: id -1 is out of range", [](json& f) { f["model"]["vocab"]["ab"] = -1; }},
      {"vocab[\"ab\"]: id 4294967296", [](json& f) { f["model"]["vocab"]["ab"] = 1LL << 32; }},
      {"id 999 leaves gaps, the file has 260 tokens",
       [](json& f) { f["model"]["vocab"]["ab"] = 999; }},
      {"share id 257", [](json& f) { f["model"]["vocab"]["ab"] = 257; }},
      {"a token without text", [](json& f) { f["model"]["vocab"][""] = 260; }},
      {"merges[1]: token \"zz\" is not in the vocabulary",
       [](json& f) { f["model"]["merges"][1] = "zz c"; }},
      {"merges[0]: token \"az\" is not in the vocabulary",
       [](json& f) { f["model"]["merges"][0] = "a z"; }},
      {"merges[0]: \"ab\" is not two tokens", [](json& f) { f["model"]["merges"][0] = "ab"; }},
      {"merges[0]: \"a b c\" is not two", [](json& f) { f["model"]["merges"][0] = "a b c"; }},
      {"merges[0]: found 3 items",
       [](json& f) {
         f["model"]["merges"][0] = {"a", "b", "c"};
       }},
      {"merges[0]: found an integer", [](json& f) { f["model"]["merges"][0] = 7; }},
      {"merges[0][1]: found an integer",
       [](json& f) {
         f["model"]["merges"][0] = json::array({"a", 7});
       }},
      {"makes the added token \"ab\"",
       [](json& f) {
         f["added_tokens"].push_back({{"id", 256}, {"content", "ab"}});
       }},
      {"added token \"<x>\" is listed twice",
       [](json& f) {
         f["added_tokens"].push_back({{"id", 260}, {"content", "<x>"}});
       }},
      {"\"<x>\" and \"<z>\" share id 258",
       [](json& f) {
         f["added_tokens"].push_back({{"id", 258}, {"content", "<z>"}});
       }},
      {"added token \"ab\": id 260 here, 256 in the vocabulary",
       [](json& f) {
         f["added_tokens"].push_back({{"id", 260}, {"content", "ab"}});
       }},
      {"added token \"Ġ\" (id 32) spells other bytes",
       [](json& f) {
         f["added_tokens"].push_back({{"id", 32}, {"content", "Ġ"}});
       }},
      {"added_tokens[1].content: 0 bytes", [](json& f) { f["added_tokens"][1]["content"] = ""; }},
      {"added_tokens[1].content: 2000 bytes",
       [](json& f) { f["added_tokens"][1]["content"] = std::string(2000, 'q'); }},
      {"added_tokens[0].lstrip: true", [](json& f) { f["added_tokens"][0]["lstrip"] = true; }},
      {"added_tokens[0].single_word: true",
       [](json& f) { f["added_tokens"][0]["single_word"] = true; }},
      {"added_tokens: found an object", [](json& f) { f["added_tokens"] = json::object(); }},
      {"added_tokens[0]: found null", [](json& f) { f["added_tokens"][0] = nullptr; }},
      {"normalizer: type \"NFC\"",
       [](json& f) {
         f["normalizer"] = {{"type", "NFC"}};
       }},
      {"normalizers[0]: type \"Lowercase\"",
       [](json& f) {
         f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}};
       }},
      {"post_processor: type \"TemplateProcessing\"",
       [](json& f) {
         f["post_processor"] = {{"type", "TemplateProcessing"}};
       }},
      {"decoder: type \"Metaspace\"",
       [](json& f) {
         f["decoder"] = {{"type", "Metaspace"}};
       }},
      {"pre_tokenizer: type \"Whitespace\"",
       [](json& f) {
         f["pre_tokenizer"] = {{"type", "Whitespace"}};
       }},
      {"pretokenizers[0]: type \"Digits\"",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["type"] = "Digits"; }},
      {"pretokenizers[0].behavior: \"Removed\"",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }},
      {"pretokenizers[0].invert: true",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }},
      {"field \"Regex\" is missing",
       [](json& f) {
         f["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", " "}};
       }},
      {"use_regex: true",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][3]["use_regex"] = true; }},
      {"field \"use_regex\" is missing",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][3].erase("use_regex"); }},
      {"add_prefix_space: true",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][3]["add_prefix_space"] = true; }},
      {"ByteLevel is missing", [](json& f) { f["pre_tokenizer"]["pretokenizers"].erase(3); }},
      {"nothing after ByteLevel",
       [](json& f) {
         json& steps = f["pre_tokenizer"]["pretokenizers"];
         steps.push_back(steps[0]);
       }},
  };
  for (const Broken& broken : cases) {
    json file = good();
    broken.change(file);
    EXPECT_THAT(error_of(file), HasSubstr(broken.message));
  }
}

TEST(TokenizerJson, WhatIsNotJsonIsRefused) {
  std::string twice = good().dump();
  twice.insert(twice.find("\"vocab\":{") + 9, "\"ab\":256,");
  const std::string_view texts[] = {"", " ", "{", "null", "\"\xC3\"", "{\"model\": 1e999}", twice};
  for (const std::string_view text : texts) EXPECT_FALSE(parse_tokenizer_json(text)) << text;
  EXPECT_THAT(parse_tokenizer_json(twice).error().message,
              HasSubstr("vocab[\"ab\"]: listed twice"));
  EXPECT_FALSE(parse_tokenizer_json(std::string(100'000, '[')));
}

TEST(TokenizerJson, LongTextsAreCutInMessages) {
  json file = good();
  file["model"]["merges"][0] = std::string(1 << 20, 'a');
  EXPECT_LT(error_of(file).size(), 300U);
}

}  // namespace
}  // namespace thimble::text
