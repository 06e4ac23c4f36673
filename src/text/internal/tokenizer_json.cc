#include "text/internal/tokenizer_json.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "text/internal/byte_level.h"
#include "text/utf8.h"

namespace thimble::text {
namespace {

namespace dom = simdjson::dom;
using base::fail;

constexpr size_t kAddedTokenBytesMax = 1024;
constexpr size_t kSplitsMax = 16;

// Text from the file for a message: hostile files have long tokens.
std::string shown(std::string_view text) {
  constexpr size_t kBytesMax = 64;
  if (text.size() <= kBytesMax) return to_valid_utf8(text);
  return to_valid_utf8(text.substr(0, kBytesMax)) + "...";
}

const char* type_name(dom::element element) {
  switch (element.type()) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    case dom::element_type::DOUBLE:
      return "a number with a fraction";
    default:
      return "an integer";
  }
}

// A JSON value and the path that leads to it, for messages.
struct Node {
  dom::element value;
  std::string path;

  tl::unexpected<Error> wrong_type(std::string_view expected) const {
    return fail(ErrorCode::kCorrupt, "{}: found {}, expected {}", path, type_name(value), expected);
  }

  Result<Node> field(std::string_view key) const {
    dom::object object;
    if (value.get(object)) return wrong_type("an object");
    dom::element found;
    if (object.at_key(key).get(found)) {
      return fail(ErrorCode::kCorrupt, "{}: field \"{}\" is missing", path, key);
    }
    return Node{found, fmt::format("{}.{}", path, key)};
  }

  // Nothing if the field is absent or null.
  Result<std::optional<Node>> optional_field(std::string_view key) const {
    dom::object object;
    if (value.get(object)) return wrong_type("an object");
    dom::element found;
    if (object.at_key(key).get(found) || found.is_null()) return std::nullopt;
    return Node{found, fmt::format("{}.{}", path, key)};
  }

  Result<std::string_view> string() const {
    std::string_view text;
    if (value.get(text)) return wrong_type("a string");
    return text;
  }

  Result<std::string_view> string_field(std::string_view key) const {
    const Node found = THIMBLE_TRY(field(key));
    return found.string();
  }

  Result<bool> boolean() const {
    bool flag = false;
    if (value.get(flag)) return wrong_type("a boolean");
    return flag;
  }

  Result<int32_t> id() const {
    int64_t number = 0;
    if (value.get(number)) return wrong_type("an integer");
    if (number < 0 || number >= std::numeric_limits<int32_t>::max()) {
      return fail(ErrorCode::kCorrupt, "{}: id {} is out of range", path, number);
    }
    return static_cast<int32_t>(number);
  }

  Result<dom::array> array() const {
    dom::array items;
    if (value.get(items)) return wrong_type("an array");
    return items;
  }
};

Result<void> require_flag(const Node& node, std::string_view key, bool expected) {
  const std::optional<Node> field = THIMBLE_TRY(node.optional_field(key));
  const bool found = field ? THIMBLE_TRY(field->boolean()) : false;
  if (found == expected) return {};
  return fail(ErrorCode::kUnsupported, "{}.{}: {} is not supported, expected {}", node.path, key,
              found, expected);
}

tl::unexpected<Error> unsupported_type(const Node& node, std::string_view type,
                                       std::string_view expected) {
  return fail(ErrorCode::kUnsupported, "{}: type \"{}\" is not supported, expected {}", node.path,
              shown(type), expected);
}

Result<void> check_normalizer(const Node& root) {
  const auto normalizer = THIMBLE_TRY(root.optional_field("normalizer"));
  if (!normalizer) return {};
  const auto type = THIMBLE_TRY(normalizer->string_field("type"));
  if (type != "Sequence") return unsupported_type(*normalizer, type, "null or an empty Sequence");
  const Node list = THIMBLE_TRY(normalizer->field("normalizers"));
  const dom::array items = THIMBLE_TRY(list.array());
  if (items.size() == 0) return {};
  const Node first{items.at(0).value(), list.path + "[0]"};
  const auto inner = THIMBLE_TRY(first.string_field("type"));
  return unsupported_type(first, inner, "an empty Sequence");
}

Result<void> check_byte_level(const Node& root, std::string_view key) {
  const auto part = THIMBLE_TRY(root.optional_field(key));
  if (!part) return {};
  const auto type = THIMBLE_TRY(part->string_field("type"));
  if (type != "ByteLevel") return unsupported_type(*part, type, "null or ByteLevel");
  return {};
}

Result<std::string> parse_split(const Node& split) {
  const Node pattern = THIMBLE_TRY(split.field("pattern"));
  const Node regex = THIMBLE_TRY(pattern.field("Regex"));
  const auto text = THIMBLE_TRY(regex.string());
  const auto behavior = THIMBLE_TRY(split.string_field("behavior"));
  if (behavior != "Isolated") {
    return fail(ErrorCode::kUnsupported, "{}.behavior: \"{}\" is not supported, expected Isolated",
                split.path, shown(behavior));
  }
  THIMBLE_TRY(require_flag(split, "invert", false));
  return std::string(text);
}

Result<void> check_byte_mapping(const Node& node) {
  THIMBLE_TRY(require_flag(node, "add_prefix_space", false));
  // The library's default for a missing use_regex is true, so it has to be there.
  THIMBLE_TRY(node.field("use_regex"));
  return require_flag(node, "use_regex", false);
}

// Splits in order, then ByteLevel as the last step.
Result<std::vector<std::string>> parse_pre_tokenizer(const Node& root) {
  const Node pre = THIMBLE_TRY(root.field("pre_tokenizer"));
  const auto type = THIMBLE_TRY(pre.string_field("type"));
  if (type != "Sequence") return unsupported_type(pre, type, "Sequence");
  const Node list = THIMBLE_TRY(pre.field("pretokenizers"));
  std::vector<std::string> patterns;
  bool mapped = false;
  size_t index = 0;
  const dom::array steps = THIMBLE_TRY(list.array());
  for (const dom::element element : steps) {
    const Node step{element, fmt::format("{}[{}]", list.path, index++)};
    const auto step_type = THIMBLE_TRY(step.string_field("type"));
    if (mapped) return unsupported_type(step, step_type, "nothing after ByteLevel");
    if (step_type == "Split") {
      auto pattern = THIMBLE_TRY(parse_split(step));
      patterns.push_back(std::move(pattern));
    } else if (step_type == "ByteLevel") {
      THIMBLE_TRY(check_byte_mapping(step));
      mapped = true;
    } else {
      return unsupported_type(step, step_type, "Split or ByteLevel");
    }
  }
  if (!mapped) return fail(ErrorCode::kUnsupported, "{}: ByteLevel is missing", list.path);
  if (patterns.size() > kSplitsMax) {
    return fail(ErrorCode::kUnsupported, "{}: {} splits, more than {}", list.path, patterns.size(),
                kSplitsMax);
  }
  return patterns;
}

Result<void> check_model_options(const Node& model) {
  const auto type = THIMBLE_TRY(model.string_field("type"));
  if (type != "BPE") return unsupported_type(model, type, "BPE");
  for (const std::string_view key :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto field = THIMBLE_TRY(model.optional_field(key));
    const bool empty_text = field && field->value.is_string() && field->string()->empty();
    if (field && !empty_text) {
      return fail(ErrorCode::kUnsupported, "{}: found {}, expected null", field->path,
                  type_name(field->value));
    }
  }
  for (const std::string_view key : {"byte_fallback", "ignore_merges"}) {
    THIMBLE_TRY(require_flag(model, key, false));
  }
  return {};
}

// Raw spelling -> id of model.vocab. Views live as long as the parser.
using Vocabulary = std::unordered_map<std::string_view, int32_t>;

Result<Vocabulary> parse_vocabulary(const Node& model) {
  const Node node = THIMBLE_TRY(model.field("vocab"));
  dom::object object;
  if (node.value.get(object)) return node.wrong_type("an object");
  Vocabulary vocabulary;
  vocabulary.reserve(object.size());
  for (const auto [key, value] : object) {
    const auto at = [&, &spelling = key] {
      return fmt::format("{}[\"{}\"]", node.path, shown(spelling));
    };
    int64_t number = 0;
    if (value.get(number)) return Node{value, at()}.wrong_type("an integer");
    const int32_t id = THIMBLE_TRY((Node{value, at()}.id()));
    if (key.empty()) return fail(ErrorCode::kCorrupt, "{}: a token without text", at());
    if (!is_valid_utf8(key)) return fail(ErrorCode::kCorrupt, "{}: not UTF-8", at());
    if (!vocabulary.emplace(key, id).second) {
      return fail(ErrorCode::kCorrupt, "{}: listed twice", at());
    }
  }
  return vocabulary;
}

struct MergeText {
  std::string_view left;
  std::string_view right;
};

// Either "left right" or ["left", "right"]: both forms exist in the wild.
Result<MergeText> parse_merge(const Node& node) {
  if (node.value.is_array()) {
    const dom::array pair = THIMBLE_TRY(node.array());
    if (pair.size() != 2) {
      return fail(ErrorCode::kCorrupt, "{}: found {} items, expected 2", node.path, pair.size());
    }
    const Node left{pair.at(0).value(), node.path + "[0]"};
    const Node right{pair.at(1).value(), node.path + "[1]"};
    return MergeText{THIMBLE_TRY(left.string()), THIMBLE_TRY(right.string())};
  }
  const auto text = THIMBLE_TRY(node.string());
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    return fail(ErrorCode::kCorrupt, "{}: \"{}\" is not two tokens and a space", node.path,
                shown(text));
  }
  return MergeText{text.substr(0, space), text.substr(space + 1)};
}

Result<std::vector<Merge>> parse_merges(const Node& model, const Vocabulary& vocabulary) {
  const Node list = THIMBLE_TRY(model.field("merges"));
  const dom::array items = THIMBLE_TRY(list.array());
  std::vector<Merge> merges;
  merges.reserve(items.size());
  std::string joined;
  for (const dom::element element : items) {
    const Node node{element, fmt::format("{}[{}]", list.path, merges.size())};
    const MergeText text = THIMBLE_TRY(parse_merge(node));
    joined.assign(text.left).append(text.right);
    Merge merge;
    for (const auto& [spelling, id] :
         {std::pair{text.left, &merge.left}, std::pair{text.right, &merge.right},
          std::pair{std::string_view(joined), &merge.result}}) {
      const auto found = vocabulary.find(spelling);
      if (found == vocabulary.end()) {
        return fail(ErrorCode::kCorrupt, "{}: token \"{}\" is not in the vocabulary", node.path,
                    shown(spelling));
      }
      *id = found->second;
    }
    merges.push_back(merge);
  }
  return merges;
}

struct AddedEntry {
  int32_t id = 0;
  std::string_view content;
};

Result<std::vector<AddedEntry>> parse_added(const Node& root) {
  std::vector<AddedEntry> added;
  const auto list = THIMBLE_TRY(root.optional_field("added_tokens"));
  if (!list) return added;
  const dom::array items = THIMBLE_TRY(list->array());
  for (const dom::element element : items) {
    const Node node{element, fmt::format("{}[{}]", list->path, added.size())};
    const Node content = THIMBLE_TRY(node.field("content"));
    const Node id = THIMBLE_TRY(node.field("id"));
    const AddedEntry entry{THIMBLE_TRY(id.id()), THIMBLE_TRY(content.string())};
    if (entry.content.empty() || entry.content.size() > kAddedTokenBytesMax) {
      return fail(ErrorCode::kUnsupported, "{}: {} bytes, expected 1 to {}", content.path,
                  entry.content.size(), kAddedTokenBytesMax);
    }
    if (!is_valid_utf8(entry.content)) {
      return fail(ErrorCode::kCorrupt, "{}: not UTF-8", content.path);
    }
    // `normalized` and `special` change nothing here: there is no normaliser, and all are kept.
    for (const std::string_view flag : {"single_word", "lstrip", "rstrip"}) {
      THIMBLE_TRY(require_flag(node, flag, false));
    }
    added.push_back(entry);
  }
  return added;
}

// Puts every token at its id: [0, count) without gaps or clashes.
class Placement {
 public:
  explicit Placement(size_t count) {
    spec_.bytes.resize(count);
    spec_.kinds.resize(count);
  }

  Result<void> place_vocabulary(const Vocabulary& vocabulary) {
    for (const auto& [spelling, id] : vocabulary) {
      std::string* bytes = THIMBLE_TRY(slot(spelling, id));
      auto unspelled = unspell_bytes(spelling);
      spec_.kinds[static_cast<size_t>(id)] = unspelled ? TokenKind::kBytes : TokenKind::kLiteral;
      *bytes = unspelled ? std::move(*unspelled) : std::string(spelling);
    }
    return {};
  }

  Result<void> place_added(const AddedEntry& entry, const Vocabulary& vocabulary) {
    if (const auto found = vocabulary.find(entry.content); found != vocabulary.end()) {
      const auto id = static_cast<size_t>(found->second);
      if (found->second != entry.id) {
        return fail(ErrorCode::kCorrupt, "added token \"{}\": id {} here, {} in the vocabulary",
                    shown(entry.content), entry.id, id);
      }
      if (spec_.kinds[id] == TokenKind::kAdded) {
        return fail(ErrorCode::kCorrupt, "added token \"{}\" is listed twice",
                    shown(entry.content));
      }
      if (spec_.bytes[id] != entry.content) {
        return fail(ErrorCode::kUnsupported,
                    "added token \"{}\" (id {}) spells other bytes in the vocabulary",
                    shown(entry.content), id);
      }
    } else {
      std::string* bytes = THIMBLE_TRY(slot(entry.content, entry.id));
      *bytes = entry.content;
    }
    spec_.kinds[static_cast<size_t>(entry.id)] = TokenKind::kAdded;
    return {};
  }

  TokenizerSpec take() { return std::move(spec_); }

 private:
  Result<std::string*> slot(std::string_view spelling, int32_t id) {
    if (static_cast<size_t>(id) >= spec_.bytes.size()) {
      return fail(ErrorCode::kCorrupt, "token \"{}\": id {} leaves gaps, the file has {} tokens",
                  shown(spelling), id, spec_.bytes.size());
    }
    std::string& bytes = spec_.bytes[static_cast<size_t>(id)];
    if (!bytes.empty()) {
      return fail(ErrorCode::kCorrupt, "tokens \"{}\" and \"{}\" share id {}", shown(bytes),
                  shown(spelling), id);
    }
    return &bytes;
  }

  TokenizerSpec spec_;
};

Result<TokenizerSpec> assemble(const Vocabulary& vocabulary, const std::vector<AddedEntry>& added,
                               std::vector<Merge> merges) {
  std::unordered_map<std::string_view, int32_t> contents;
  size_t count = vocabulary.size();
  for (const AddedEntry& entry : added) {
    if (!contents.emplace(entry.content, entry.id).second) {
      return fail(ErrorCode::kCorrupt, "added token \"{}\" is listed twice", shown(entry.content));
    }
    if (!vocabulary.contains(entry.content)) ++count;
  }
  Placement placement(count);
  THIMBLE_TRY(placement.place_vocabulary(vocabulary));
  for (const AddedEntry& entry : added) {
    THIMBLE_TRY(placement.place_added(entry, vocabulary));
  }
  TokenizerSpec spec = placement.take();
  // Plain text must never become an added token (spec/chat-format.md section 9).
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto result = static_cast<size_t>(merges[rank].result);
    if (spec.kinds[result] != TokenKind::kAdded) continue;
    return fail(ErrorCode::kUnsupported, "model.merges[{}] makes the added token \"{}\"", rank,
                shown(spec.bytes[result]));
  }
  spec.merges = std::move(merges);
  return spec;
}

}  // namespace

Result<TokenizerSpec> parse_tokenizer_json(std::string_view json) {
  dom::parser parser;
  dom::element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document)) {
    return fail(ErrorCode::kCorrupt, "not JSON: {}", simdjson::error_message(error));
  }
  const Node root{document, "tokenizer"};
  THIMBLE_TRY(check_normalizer(root));
  for (const std::string_view key : {"post_processor", "decoder"}) {
    THIMBLE_TRY(check_byte_level(root, key));
  }
  auto patterns = THIMBLE_TRY(parse_pre_tokenizer(root));
  const Node model = THIMBLE_TRY(root.field("model"));
  THIMBLE_TRY(check_model_options(model));
  const Vocabulary vocabulary = THIMBLE_TRY(parse_vocabulary(model));
  auto merges = THIMBLE_TRY(parse_merges(model, vocabulary));
  const auto added = THIMBLE_TRY(parse_added(root));
  TokenizerSpec spec = THIMBLE_TRY(assemble(vocabulary, added, std::move(merges)));
  spec.split_patterns = std::move(patterns);
  return spec;
}

}  // namespace thimble::text
