// Schemas from strangers, and a model that says anything.
//
// The first byte seeds the model's choices, the rest is the schema. Whatever it is, it is compiled
// or refused; what is compiled can be completed from wherever a text stands, each byte that the
// masks let through is read, and a complete text is JSON.
#include "base/check.h"
#include "base/random.h"
#include "fuzz/input.h"
#include "text/byte_tokenizer.h"
#include "text/json_schema.h"
#include "text/json_text.h"
#include "text/token_masker.h"

namespace thimble::text {
namespace {

constexpr int kStepsMax = 60;

std::shared_ptr<const TokenTrie> byte_trie() {
  static const auto trie =
      std::make_shared<const TokenTrie>(*Tokenizer::parse(make_byte_tokenizer_json()));
  return trie;
}

// Any token that may come; -1: none.
int32_t pick(const std::vector<uint64_t>& bits, base::SplitMix64& random) {
  std::vector<int32_t> tokens;
  for (size_t id = 0; id < bits.size() * 64; ++id) {
    if (((bits[id / 64] >> (id % 64)) & 1) != 0) tokens.push_back(static_cast<int32_t>(id));
  }
  return tokens.empty() ? -1 : tokens[random.below(tokens.size())];
}

void sample(TokenMasker& masker, base::SplitMix64& random) {
  GrammarState state = masker.grammar().begin();
  std::vector<uint64_t> bits;
  std::string text;
  for (int step = 0; step < kStepsMax; ++step) {
    masker.allowed(state, bits);
    const int32_t token = pick(bits, random);
    const bool complete = Grammar::is_complete(state);
    CHECK(token >= 0 || complete);
    if (complete) CHECK(python_json(text).has_value());
    if (token < 0) return;
    CHECK(masker.accept(state, token));
    text += masker.trie().bytes_of(token);
  }
}

void run(fuzz::Input& input) {
  base::SplitMix64 random(input.byte());
  auto grammar = compile_json_schema(input.rest());
  if (!grammar) {
    CHECK(!grammar.error().message.empty());
    return;
  }
  TokenMasker masker(std::make_shared<Grammar>(std::move(*grammar)), byte_trie());
  for (int i = 0; i < 3; ++i) sample(masker, random);
}

}  // namespace
}  // namespace thimble::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thimble::fuzz::Input input(data, size);
  thimble::text::run(input);
  return 0;
}
