// tokenizer.json from strangers, and texts for whatever loads.
//
// The first byte chooses: the input is a whole file; edits to the bytes or to the values of a good
// one; merges and added tokens of a file made here, whose ids are then compared with merging done
// by its definition; or a pattern and a text. Whatever loads must give every text back, keep added
// tokens out of plain text, and stream.
#include <map>

#include "base/check.h"
#include "fuzz/input.h"
#include "text/internal/regex_splitter.h"
#include "text/stream_decoder.h"
#include "text/testing.h"
#include "text/token_map.h"
#include "text/utf8.h"

namespace thimble::text {
namespace {

using fuzz::Input;
using nlohmann::json;

constexpr size_t kTextBytesMax = 300;

void check_text(const Tokenizer& tokenizer, const std::string& text) {
  for (const AddedTokens added : {AddedTokens::kMatch, AddedTokens::kPlain}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, added);
    CHECK(*tokenizer.decode(ids) == text);
    StreamDecoder decoder(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      CHECK(added == AddedTokens::kMatch || !tokenizer.is_added(id));
      streamed += *decoder.push(id);
    }
    CHECK(streamed + decoder.finish() == to_valid_utf8(text));
  }
}

void check_loaded(const Tokenizer& tokenizer, Input& input) {
  for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.size()); ++id) {
    if (tokenizer.is_added(id)) CHECK(tokenizer.find_added(tokenizer.token_bytes(id)) == id);
    CHECK(tokenizer.find(tokenizer.raw_token(id)).has_value());
  }
  if (input.below(8) == 7) {
    const auto map = build_token_map(tokenizer);
    CHECK(map && map->class_of.size() == tokenizer.size());
  }
  check_text(tokenizer, " the 1234\xFF\n" + input.text(kTextBytesMax));
}

void whole_file(Input& input) {
  const auto tokenizer = Tokenizer::parse(input.rest());
  if (!tokenizer) CHECK(!tokenizer.error().message.empty());
  Input nothing(nullptr, 0);
  if (tokenizer) check_loaded(*tokenizer, nothing);
}

SmallTokenizer good_file() {
  SmallTokenizer small;
  small.merges = {{"t", "h"}, {"th", "e"}, {" ", "the"}};
  small.added = {"<a>", "<ab>"};
  return small;
}

// Changes bytes: mostly broken JSON.
void edited_file(Input& input) {
  static const std::string good = good_file().json().dump();
  std::string file = good;
  for (size_t edits = 1 + input.below(4); edits > 0; --edits) {
    // The interesting parts lie at the beginning and the end; the alphabet is in between.
    const size_t from_end = input.flag() ? 0 : file.size() / 2;
    const size_t at = (from_end + input.below(65536)) % (file.size() + 1);
    const size_t cut = input.below(64);
    file.replace(at, cut, input.text(80));
  }
  const auto tokenizer = Tokenizer::parse(file);
  if (tokenizer) check_loaded(*tokenizer, input);
}

json take_value(Input& input) {
  switch (input.below(8)) {
    case 0:
      return nullptr;
    case 1:
      return input.flag();
    case 2:
      return static_cast<int>(input.below(512)) - 128;
    case 3:
      return int64_t{1} << input.below(63);
    case 4:
      return 0.5;
    case 5:
      return json::array();
    case 6:
      return json::object();
    default:
      return input.text(16);
  }
}

void change_value(json& file, Input& input) {
  json* at = &file;
  for (int depth = 0; depth < 8 && at->is_structured() && !at->empty(); ++depth) {
    if (depth > 0 && input.below(8) == 0) break;
    at = &std::next(at->begin(), static_cast<ptrdiff_t>(input.below(at->size()))).value();
  }
  if (input.flag() && at->is_array()) {
    at->push_back(at->empty() ? take_value(input) : at->back());
  } else if (input.flag() && at->is_object()) {
    (*at)[to_valid_utf8(input.text(16))] = take_value(input);
  } else {
    *at = take_value(input);
  }
}

// Changes values: always JSON, so that every check behind the parser is reached.
void changed_file(Input& input) {
  static const json good = good_file().json();
  json file = good;
  for (size_t changes = 1 + input.below(3); changes > 0; --changes) change_value(file, input);
  const auto tokenizer =
      Tokenizer::parse(file.dump(-1, ' ', false, json::error_handler_t::replace));
  if (tokenizer) check_loaded(*tokenizer, input);
}

std::vector<int32_t> by_definition(const SmallTokenizer& small, const Tokenizer& tokenizer,
                                   const std::string& text) {
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (size_t rank = 0; rank < small.merges.size(); ++rank) ranks[small.merges[rank]] = rank;
  std::vector<std::string> symbols;
  for (const char c : text) symbols.emplace_back(1, c);
  while (true) {
    size_t best = 0;
    size_t best_rank = SIZE_MAX;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found == ranks.end() || found->second >= best_rank) continue;
      best = i;
      best_rank = found->second;
    }
    if (best_rank == SIZE_MAX) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& symbol : symbols) ids.push_back(*tokenizer.find(spell_bytes(symbol)));
  return ids;
}

// Malformed and well-formed stretches are pieces of their own, so only valid text is compared.
void made_file(Input& input) {
  SmallTokenizer small;
  small.patterns.clear();
  std::vector<std::string> symbols = {"a", "b", "\xC3", "\xA9", " "};
  std::map<std::pair<std::string, std::string>, bool> seen;
  for (size_t count = input.below(40); count > 0; --count) {
    const std::string left = symbols[input.below(symbols.size())];
    const std::string right = symbols[input.below(symbols.size())];
    if (left.size() + right.size() > 64 || !seen.emplace(std::pair{left, right}, true).second) {
      continue;
    }
    small.merges.emplace_back(left, right);
    symbols.push_back(left + right);
  }
  for (size_t count = input.below(4); count > 0; --count) small.added.push_back(input.text(8));
  const auto tokenizer =
      Tokenizer::parse(small.json().dump(-1, ' ', false, json::error_handler_t::replace));
  if (!tokenizer) return;
  std::string text;
  while (!input.empty() && text.size() < kTextBytesMax)
    text += symbols[input.below(symbols.size())];
  check_text(*tokenizer, text);
  if (text.empty() || !is_valid_utf8(text)) return;
  CHECK(tokenizer->encode(text, AddedTokens::kPlain) == by_definition(small, *tokenizer, text));
}

// A pattern of the input's own, on a text of its own: the pieces lie side by side.
void own_pattern(Input& input) {
  const std::string pattern = input.text(60);
  const auto splitter = RegexSplitter::compile({&pattern, 1});
  if (!splitter) return;
  std::string text = input.text(kTextBytesMax);
  if (!is_valid_utf8(text)) text = to_valid_utf8(text);
  RegexSplitter::Scratch scratch;
  uint32_t begin = 0;
  for (const uint32_t end : splitter->split(text, scratch)) {
    CHECK_LT(begin, end);
    CHECK(is_valid_utf8(std::string_view(text).substr(begin, end - begin)));
    begin = end;
  }
  CHECK_EQ(begin, text.size());
}

}  // namespace
}  // namespace thimble::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thimble::fuzz::Input input(data, size);
  switch (input.below(5)) {
    case 0:
      thimble::text::whole_file(input);
      break;
    case 1:
      thimble::text::edited_file(input);
      break;
    case 2:
      thimble::text::made_file(input);
      break;
    case 3:
      thimble::text::changed_file(input);
      break;
    default:
      thimble::text::own_pattern(input);
      break;
  }
  return 0;
}
