// A vocabulary as a tree of bytes: tokens that begin alike share their beginning.
//
// Holds the tokens that have bytes of their own, so no added ones: control tokens are not text. But
// the marker of calls is CallParser::kMarker here, as in a grammar of calls (text/call_grammar.h);
// tokens that have this byte are in no text in UTF-8, and not in the tree.
// Nodes lie in the order of a walk that goes down first, so a subtree is a range. A token's id may
// be any; two tokens may have the same bytes. Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace thimble::text {

class TokenTrie {
 public:
  struct Node {
    uint32_t end = 0;    // its subtree is [node, end)
    uint32_t token = 0;  // the first of its own in tokens order; the next node's ends them
    uint32_t depth = 0;  // bytes up to here
    uint8_t byte = 0;    // the last of them
  };

  // Nothing of the tokenizer is kept.
  explicit TokenTrie(const Tokenizer& tokenizer);

  // [0] is the root.
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  // Ids of the tokens that end at this node.
  std::span<const int32_t> tokens_at(uint32_t node) const {
    return std::span(tokens_).subspan(nodes_[node].token,
                                      nodes_[node + 1].token - nodes_[node].token);
  }

  // Empty: not in the tree.
  std::string_view bytes_of(int32_t token) const;

  uint32_t vocab_size() const { return static_cast<uint32_t>(texts_.size()); }
  uint32_t longest() const { return longest_; }
  // Is there a token for each byte that a text in UTF-8 can hold? Only then any text can be
  // spelled.
  bool spells_everything() const;

 private:
  std::vector<std::string> texts_;  // [vocab_size]
  std::vector<int32_t> tokens_;     // by their bytes
  std::vector<Node> nodes_;         // and one more, whose token is the end
  uint32_t longest_ = 0;
};

}  // namespace thimble::text
