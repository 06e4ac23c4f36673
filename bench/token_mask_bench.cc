// Time of a mask of allowed tokens, one thread. Prints one JSON line a place in a text.
//
//   token_mask_bench TOKENIZER.json
//
// "first": nothing is kept yet, as at the first such place of a request; "again": the best of
// several afterwards. Checks each mask against some tokens tried for themselves before it times
// anything.
#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "base/file.h"
#include "text/json_schema.h"
#include "text/token_masker.h"

namespace thimble::text {
namespace {

constexpr int kPasses = 9;

struct Place {
  const char* name;
  const char* schema;  // empty: any object
  std::string text;
};

template <class Function>
double milliseconds(Function&& function) {
  const std::clock_t begin = std::clock();
  function();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

int fail_with(const std::string& message) {
  fmt::print(stderr, "token_mask_bench: {}\n", message);
  return 1;
}

bool is_right(TokenMasker& masker, const GrammarState& state, const std::vector<uint64_t>& bits) {
  for (uint32_t id = 0; id < masker.trie().vocab_size(); id += 7) {
    GrammarState copy = state;
    const bool may = masker.accept(copy, static_cast<int32_t>(id));
    if (may != (((bits[id / 64] >> (id % 64)) & 1) != 0)) return false;
  }
  return true;
}

int measure(const Place& place, const std::shared_ptr<const TokenTrie>& trie) {
  auto grammar = std::make_shared<Grammar>(json_object_grammar());
  if (*place.schema != '\0') {
    auto compiled = compile_json_schema(place.schema);
    if (!compiled) return fail_with(compiled.error().describe());
    grammar = std::make_shared<Grammar>(std::move(*compiled));
  }
  GrammarState state = grammar->begin();
  if (!grammar->read(state, place.text)) return fail_with("not a text of its grammar");
  std::vector<uint64_t> bits;
  TokenMasker checked(grammar, trie);
  checked.allowed(state, bits);
  if (!is_right(checked, state, bits)) return fail_with("a wrong mask");
  double first = 1e30;
  double again = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) {
    TokenMasker masker(grammar, trie);
    first = std::min(first, milliseconds([&] { masker.allowed(state, bits); }));
    again = std::min(again, milliseconds([&] { masker.allowed(state, bits); }));
  }
  size_t count = 0;
  for (const uint64_t word : bits) count += static_cast<size_t>(__builtin_popcountll(word));
  fmt::print("{{\"place\": \"{}\", \"allowed\": {}, \"first_ms\": {:.3f}, \"again_ms\": {:.3f}}}\n",
             place.name, count, first, again);
  return 0;
}

int run(const Path& file) {
  const auto tokenizer = Tokenizer::open(file);
  if (!tokenizer) return fail_with(tokenizer.error().describe());
  std::shared_ptr<const TokenTrie> trie;
  const double built = milliseconds([&] { trie = std::make_shared<TokenTrie>(*tokenizer); });
  fmt::print(
      "{{\"place\": \"building the tree\", \"tokens\": {}, \"nodes\": {}, \"ms\": {:.1f}}}\n",
      trie->vocab_size(), trie->nodes().size(), built);
  const char* record = R"({"type": "object", "properties": {"name": {"type": "string"},
      "note": {"type": "string", "maxLength": 200}, "age": {"type": "integer"},
      "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}}},
      "required": ["name", "note", "age", "tags"], "additionalProperties": false})";
  const std::vector<Place> places = {
      {"object: begin", "", ""},
      {"object: after a brace", "", "{"},
      {"object: in a key", "", "{\"ke"},
      {"object: in a string", "", "{\"key\": \"some te"},
      {"object: string, 40 levels deep", "",
       [] {
         std::string text;
         for (int i = 0; i < 40; ++i) text += "{\"a\":[";
         return text + "\"some te";
       }()},
      {"object: in a number", "", "{\"key\": 12"},
      {"object: after a value", "", "{\"key\": \"value\""},
      {"schema: in a string", record, "{\"name\": \"some te"},
      {"schema: in a bounded string", record, "{\"name\": \"x\", \"note\": \"some te"},
      {"schema: near the bound", record, "{\"name\": \"x\", \"note\": \"" + std::string(150, 'x')},
      {"schema: in an enum", record,
       "{\"name\": \"x\", \"note\": \"\", \"age\": 1, \"tags\": [\""}};
  for (const Place& place : places) {
    if (const int failed = measure(place, trie)) return failed;
  }
  return 0;
}

}  // namespace
}  // namespace thimble::text

int main(int argc, char** argv) {
  if (argc == 2) return thimble::text::run(argv[1]);
  fmt::print(stderr, "usage: token_mask_bench TOKENIZER.json\n");
  return 2;
}
