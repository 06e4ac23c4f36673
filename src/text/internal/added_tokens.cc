#include "text/internal/added_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace thimble::text {

// Tokens [begin, end) of the sorted list share the first `depth` bytes, which lead to `node`.
struct AddedTokenFinder::Level {
  size_t begin = 0;
  size_t end = 0;
  size_t depth = 0;
  uint32_t node = 0;
};

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) {
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  nodes_.emplace_back();
  // Breadth first, so that the children of a node lie side by side in edges_.
  std::vector<Level> levels = {{.end = tokens.size()}};
  for (size_t at = 0; at < levels.size(); ++at) {
    Level level = levels[at];
    if (level.begin < level.end && tokens[level.begin].content.size() == level.depth) {
      CHECK(level.depth > 0);
      nodes_[level.node].id = tokens[level.begin++].id;
    }
    nodes_[level.node].first_child = static_cast<uint32_t>(edges_.size());
    while (level.begin < level.end) {
      const std::string& content = tokens[level.begin].content;
      CHECK(content.size() > level.depth);  // Otherwise it equals the one before.
      const auto byte = static_cast<uint8_t>(content[level.depth]);
      size_t end = level.begin;
      while (end < level.end && static_cast<uint8_t>(tokens[end].content[level.depth]) == byte)
        ++end;
      const auto node = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edges_.push_back({byte, node});
      ++nodes_[level.node].child_count;
      levels.push_back({level.begin, end, level.depth + 1, node});
      if (level.depth == 0) begins_[byte] = true;
      level.begin = end;
    }
  }
}

const AddedTokenFinder::Node* AddedTokenFinder::child(const Node& node, uint8_t byte) const {
  const auto begin = edges_.begin() + node.first_child;
  const auto end = begin + node.child_count;
  const auto edge = std::lower_bound(begin, end, byte,
                                     [](const Edge& e, uint8_t value) { return e.byte < value; });
  return edge == end || edge->byte != byte ? nullptr : &nodes_[edge->node];
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::longest_at(std::string_view text,
                                                                    size_t begin) const {
  std::optional<Match> longest;
  const Node* node = nodes_.data();
  for (size_t at = begin; at < text.size(); ++at) {
    node = child(*node, static_cast<uint8_t>(text[at]));
    if (node == nullptr) break;
    if (node->id >= 0) longest = Match{begin, at + 1, node->id};
  }
  return longest;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::find(std::string_view text,
                                                              size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
    if (const auto match = longest_at(text, begin)) return match;
  }
  return std::nullopt;
}

std::optional<int32_t> AddedTokenFinder::exact(std::string_view content) const {
  const Node* node = nodes_.data();
  for (const char byte : content) {
    node = child(*node, static_cast<uint8_t>(byte));
    if (node == nullptr) return std::nullopt;
  }
  if (node->id < 0) return std::nullopt;
  return node->id;
}

}  // namespace thimble::text
