// Small tokenizer.json files for tests, made to measure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/internal/byte_level.h"
#include "text/tokenizer.h"

namespace thimble::text {

// The three patterns of the released file.
inline std::vector<std::string> released_patterns() {
  return {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
          "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
          "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
          "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};
}

// Byte b is id b; each merge adds the next id unless its result exists; then come added tokens.
struct SmallTokenizer {
  std::vector<std::string> patterns = released_patterns();
  std::vector<std::pair<std::string, std::string>> merges;  // As bytes, not as spelled.
  std::vector<std::string> added;

  nlohmann::json json() const {
    using nlohmann::json;
    json vocabulary = json::object();
    for (int byte = 0; byte < 256; ++byte) {
      vocabulary[spell_bytes(std::string(1, static_cast<char>(byte)))] = byte;
    }
    json merge_list = json::array();
    for (const auto& [left, right] : merges) {
      merge_list.push_back(spell_bytes(left) + " " + spell_bytes(right));
      const std::string result = spell_bytes(left + right);
      if (!vocabulary.contains(result)) vocabulary[result] = vocabulary.size();
    }
    json added_list = json::array();
    for (const std::string& content : added) {
      added_list.push_back({{"id", vocabulary.size() + added_list.size()}, {"content", content}});
    }
    json steps = json::array();
    for (const std::string& pattern : patterns) {
      steps.push_back(
          {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}});
    }
    steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
    return {{"added_tokens", added_list},
            {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merge_list}}}};
  }

  Tokenizer make() const {
    auto tokenizer = Tokenizer::parse(json().dump());
    if (!tokenizer) base::check_failed(__FILE__, __LINE__, "parse", tokenizer.error().describe());
    return std::move(*tokenizer);
  }
};

}  // namespace thimble::text
