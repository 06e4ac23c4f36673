#include "text/byte_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <set>
#include <string_view>

#include "base/check.h"
#include "text/internal/byte_level.h"
#include "text/special_tokens.h"

namespace thimble::text {
namespace {

constexpr int32_t kFirstByteId = 3;

constexpr std::array<std::string_view, 3> kLeading = {kBosText, kEosText, kPadText};

constexpr std::array<std::string_view, 11> kTrailing = {
    kSystemText,      kUserText,         kAssistantText, kThinkOpenText,
    kThinkCloseText,  kDsmlText,         kImageText,     kLatestReminderText,
    "<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>"};

// The released pre-tokenizer (spec/chat-format.md 1.1), as JSON.
constexpr std::string_view kPreTokenizer =
    R"json({
    "type": "Sequence",
    "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"},
       "behavior": "Isolated", "invert": false},
      {"type": "Split", "pattern": {"Regex": "[一-龥぀-ゟ゠-ヿ]+"},
       "behavior": "Isolated", "invert": false},
      {"type": "Split", "pattern": {"Regex": ")json"
    R"json([!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|)json"
    R"json([^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|)json"
    R"json(\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
       "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
    ]
  })json";

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string added_token(int32_t id, std::string_view content) {
  return fmt::format(
      R"({{"id": {}, "content": {}, "single_word": false, "lstrip": false, "rstrip": false, )"
      R"("normalized": false, "special": true}})",
      id, json_string(content));
}

using Merges = std::span<const std::pair<std::string, std::string>>;

// Control tokens, bytes, merges, control tokens, then place holders up to `size` ids.
std::string tokenizer_json(Merges merges, int32_t size) {
  static_assert(kLeading.size() == kFirstByteId);
  std::string vocabulary;
  std::string added;
  int32_t id = 0;
  for (const std::string_view text : kLeading) {
    added += fmt::format("{}\n    {}", id == 0 ? "" : ",", added_token(id, text));
    vocabulary += fmt::format("{}\n      {}: {}", id == 0 ? "" : ",", json_string(text), id);
    ++id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char as_char = static_cast<char>(byte);
    vocabulary += fmt::format(",\n      {}: {}", json_string(spell_bytes({&as_char, 1})), id++);
  }
  std::string merge_list;
  std::set<std::string> seen;  // two merges may spell the same
  for (const auto& [left, right] : merges) {
    if (seen.insert(left + right).second) {
      vocabulary += fmt::format(",\n      {}: {}", json_string(spell_bytes(left + right)), id++);
    }
    merge_list += fmt::format("{}\n      {}", merge_list.empty() ? "" : ",",
                              json_string(spell_bytes(left) + " " + spell_bytes(right)));
  }
  for (const std::string_view text : kTrailing) {
    added += fmt::format(",\n    {}", added_token(id++, text));
  }
  for (int32_t number = 0; id < size; ++number) {
    const std::string text = fmt::format("<|place_holder_mm_span_{:04}|>", number);
    added += fmt::format(",\n    {}", added_token(id++, text));
  }
  return fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [{}
  ],
  "normalizer": {{"type": "Sequence", "normalizers": []}},
  "pre_tokenizer": {},
  "post_processor": {{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false,
    "use_regex": true}},
  "decoder": {{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
    "use_regex": true}},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "vocab": {{{}
    }},
    "merges": [{}]
  }}
}}
)",
                     added, kPreTokenizer, vocabulary, merge_list);
}

}  // namespace

int32_t byte_tokenizer_size() {
  return kFirstByteId + 256 + static_cast<int32_t>(kTrailing.size());
}

std::string make_byte_tokenizer_json(int32_t size) {
  CHECK(size >= byte_tokenizer_size());
  return tokenizer_json({}, size);
}

std::string make_bpe_tokenizer_json(Merges merges) { return tokenizer_json(merges, 0); }

}  // namespace thimble::text
