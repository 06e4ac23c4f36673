#include "text/token_trie.h"

#include <algorithm>

#include "text/call_parser.h"
#include "text/special_tokens.h"

namespace thimble::text {
namespace {

size_t common_bytes(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : texts_(tokenizer.size()) {
  for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.size()); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    const bool impossible = bytes.find(CallParser::kMarker) != bytes.npos;
    if (tokenizer.is_added(id) || bytes.empty() || impossible) continue;
    texts_[static_cast<size_t>(id)] = bytes;
    tokens_.push_back(id);
  }
  if (const auto marker = tokenizer.find_added(kDsmlText)) {
    texts_[static_cast<size_t>(*marker)] = CallParser::kMarker;
    tokens_.push_back(*marker);
  }
  std::sort(tokens_.begin(), tokens_.end(), [&](int32_t a, int32_t b) {
    const int order = bytes_of(a).compare(bytes_of(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<uint32_t> open = {0};  // nodes of the last token, by depth
  nodes_.push_back({});
  std::string_view before;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view bytes = bytes_of(tokens_[i]);
    const size_t common = common_bytes(before, bytes);
    const auto here = static_cast<uint32_t>(nodes_.size());
    for (; open.size() > common + 1; open.pop_back()) nodes_[open.back()].end = here;
    for (size_t depth = common; depth < bytes.size(); ++depth) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(
          {0, i, static_cast<uint32_t>(depth + 1), static_cast<uint8_t>(bytes[depth])});
    }
    longest_ = std::max(longest_, static_cast<uint32_t>(bytes.size()));
    before = bytes;
  }
  for (const uint32_t node : open) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), 0, 0});
}

std::string_view TokenTrie::bytes_of(int32_t token) const {
  const auto at = static_cast<size_t>(token);  // a negative one is out of range
  return at < texts_.size() ? std::string_view(texts_[at]) : std::string_view();
}

bool TokenTrie::spells_everything() const {
  uint32_t single = 0;
  for (uint32_t i = 0; i < nodes_.size() - 1; ++i) {
    const uint8_t byte = nodes_[i].byte;
    const bool possible = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
    if (nodes_[i].depth == 1 && possible && !tokens_at(i).empty()) ++single;
  }
  return single == 256 - 2 - 11;
}

}  // namespace thimble::text
