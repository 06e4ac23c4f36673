// Aim: a mask is the tokens that may follow, no more and no fewer; a text sampled by masks is JSON
// that fits its schema.
// Method: schemas from a seed and a stand-in for a model that picks any token it may, over a
// vocabulary whose tokens cut JSON and characters in odd places; each mask against every token
// tried for itself; nlohmann's parser and a second validator judge the text.
#include "text/token_masker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "text/call_grammar.h"
#include "text/json_schema.h"
#include "text/schema_testing.h"
#include "text/testing.h"

namespace thimble::text {
namespace {

// Bytes, and pieces of JSON.
Tokenizer odd_tokenizer() {
  SmallTokenizer small;
  std::set<std::string> joined;
  const auto join = [&](const std::string& text) {
    for (size_t i = 1; i < text.size(); ++i) {
      if (!joined.insert(text.substr(0, i + 1)).second) continue;
      small.merges.emplace_back(text.substr(0, i), text.substr(i, 1));
    }
  };
  for (const char* text :
       {"{\"",   "\":",  "\": ",     "\",\"",        "\"}",         "\"}]",
        "}}",    "]]",   "},{",      "\", \"",       "{\n  ",       ",\n  ",
        "    ",  "true", "null}",    "12",           "-1",          ".5",
        "e+",    "ab",   "abc\"",    "red\"",        "redder",      "\\u00",
        "\\ud8", "\\n",  "\xC3\xA9", "\xC3\xA9\xC3", "\xF0\x9F",    "\x9F\x98\x80\"",
        "0,",    "1]",   "[[",       "a\":1",        "next\": {\"", "aaaaaaaa"}) {
    join(text);
  }
  small.added = {"<end>", "<think>"};
  return small.make();
}

class MaskerTest : public testing::Test {
 protected:
  Tokenizer tokenizer_ = odd_tokenizer();
  std::shared_ptr<const TokenTrie> trie_ = std::make_shared<TokenTrie>(tokenizer_);
  std::vector<uint64_t> bits_;

  void expect_every_token_tried(TokenMasker& masker, const GrammarState& state) {
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer_.size()); ++id) {
      GrammarState copy = state;
      const bool may = masker.accept(copy, id);
      ASSERT_EQ(has_bit(bits_, id), may) << "token '" << tokenizer_.token_bytes(id) << "'";
    }
  }

  // Until the text is complete; "" when it became too long.
  std::string sample(TokenMasker& masker, base::SplitMix64& random) {
    std::string text;
    GrammarState state = masker.grammar().begin();
    for (int step = 0; step < 600; ++step) {
      masker.allowed(state, bits_);
      if (step < 12 || step % 16 == 0) expect_every_token_tried(masker, state);
      if (HasFatalFailure()) return "";
      const auto token = pick_token(*trie_, bits_, random);
      const bool ends = Grammar::is_complete(state) && (!token || random.below(2) == 0);
      if (ends) return text;
      EXPECT_TRUE(token.has_value()) << "nothing may follow " << text;
      if (!token || !masker.accept(state, *token)) return "";
      text += trie_->bytes_of(*token);
    }
    return "";
  }
};

TEST_F(MaskerTest, TheTrieHoldsEveryTokenOnce) {
  std::vector<int32_t> seen;
  for (uint32_t node = 1; node < trie_->nodes().size(); ++node) {
    for (const int32_t token : trie_->tokens_at(node)) {
      seen.push_back(token);
      EXPECT_EQ(trie_->bytes_of(token).size(), trie_->nodes()[node].depth);
      EXPECT_EQ(static_cast<uint8_t>(trie_->bytes_of(token).back()), trie_->nodes()[node].byte);
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen.size(), tokenizer_.size() - 3);  // all but the added ones and the byte 0xFF
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_TRUE(trie_->tokens_at(0).empty());
  EXPECT_TRUE(trie_->spells_everything());
  EXPECT_EQ(trie_->longest(), 9u);
  EXPECT_EQ(trie_->bytes_of(-1), "");
  EXPECT_EQ(trie_->bytes_of(1 << 20), "");
}

TEST_F(MaskerTest, TheMarkerOfCallsIsTheByteThatNoTextHas) {
  SmallTokenizer small;
  small.added = {"<end>", std::string(kDsmlText)};
  const Tokenizer tokenizer = small.make();
  const int32_t marker = *tokenizer.find_added(kDsmlText);
  const auto trie = std::make_shared<TokenTrie>(tokenizer);
  EXPECT_EQ(trie->bytes_of(marker), "\xFF");
  EXPECT_TRUE(trie->spells_everything());
  for (const bool calls : {false, true}) {
    Grammar grammar = json_object_grammar();
    if (calls) grammar = answer_or_calls(grammar);
    TokenMasker masker(std::make_shared<Grammar>(grammar), trie);
    GrammarState state = masker.grammar().begin();
    ASSERT_TRUE(masker.grammar().read(state, calls ? "\n\n<" : "{\""));
    masker.allowed(state, bits_);
    EXPECT_EQ(has_bit(bits_, marker), calls);
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.size()); ++id) {
      const bool is_byte = id != marker && tokenizer.token_bytes(id) == "\xFF";
      EXPECT_FALSE(is_byte && has_bit(bits_, id));
    }
    EXPECT_EQ(masker.accept(state, marker), calls);
  }
}

TEST_F(MaskerTest, SampledTextsFitTheirSchemas) {
  int compiled = 0;
  int complete = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const TestJson schema = SchemaMaker(seed).make();
    const auto grammar = compile_json_schema(schema.dump());
    if (!grammar) {
      EXPECT_NE(grammar.error().describe().find("both fit"), std::string::npos)
          << schema << ": " << grammar.error().describe();
      continue;
    }
    ++compiled;
    TokenMasker masker(std::make_shared<Grammar>(*grammar), trie_);
    base::SplitMix64 random(seed);
    for (int i = 0; i < 3; ++i) {
      const std::string text = sample(masker, random);
      ASSERT_FALSE(HasFatalFailure()) << schema;
      if (text.empty()) continue;
      ++complete;
      const TestJson value = TestJson::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << schema << " gave " << text;
      ASSERT_TRUE(SchemaValidator(schema).fits(value)) << schema << " gave " << text;
    }
  }
  EXPECT_GT(compiled, 240);
  EXPECT_GT(complete, 2 * compiled);
}

TEST_F(MaskerTest, AnyObjectParses) {
  TokenMasker masker(std::make_shared<Grammar>(json_object_grammar()), trie_);
  base::SplitMix64 random(1);
  int complete = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string text = sample(masker, random);
    ASSERT_FALSE(HasFatalFailure());
    if (text.empty()) continue;
    ++complete;
    EXPECT_TRUE(TestJson::parse(text, nullptr, false).is_object()) << text;
  }
  EXPECT_GT(complete, 150);
}

// Masks are worked out from what is kept; they are the same when nothing is.
TEST_F(MaskerTest, WhatIsKeptChangesNothing) {
  const auto grammar = std::make_shared<Grammar>(
      *compile_json_schema(R"({"type": "array", "items": {"type": "string", "maxLength": 40}})"));
  TokenMasker keeps(grammar, trie_);
  GrammarState state = grammar->begin();
  base::SplitMix64 random(2);
  std::vector<uint64_t> fresh;
  for (int step = 0; step < 1000; ++step) {
    keeps.allowed(state, bits_);
    TokenMasker(grammar, trie_).allowed(state, fresh);
    ASSERT_EQ(bits_, fresh) << "step " << step;
    if (const auto token = pick_token(*trie_, bits_, random)) {
      ASSERT_TRUE(keeps.accept(state, *token));
    } else {
      state = grammar->begin();
    }
  }
}

TEST_F(MaskerTest, ControlTokensNeverFollow) {
  TokenMasker masker(std::make_shared<Grammar>(json_object_grammar()), trie_);
  GrammarState state = masker.grammar().begin();
  ASSERT_TRUE(masker.grammar().read(state, "{\""));
  masker.allowed(state, bits_);
  EXPECT_TRUE(has_bit(bits_, '<'));
  for (const char* added : {"<end>", "<think>"}) {
    EXPECT_FALSE(has_bit(bits_, *tokenizer_.find_added(added)));
    EXPECT_FALSE(masker.accept(state, *tokenizer_.find_added(added)));
  }
  EXPECT_FALSE(masker.accept(state, -1));
}

}  // namespace
}  // namespace thimble::text
