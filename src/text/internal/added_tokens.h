// Finds added tokens in a text by their content: leftmost first, then longest.
//
// A byte trie, walked only from bytes that begin some token. Immutable after construction; any
// thread. A search costs at most text bytes x longest content.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thimble::text {

struct AddedToken {
  int32_t id = 0;
  std::string content;
};

class AddedTokenFinder {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    int32_t id = 0;
  };

  // REQUIRES: contents are distinct and not empty.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // First match that begins at or after `from`.
  std::optional<Match> find(std::string_view text, size_t from) const;

  // The token whose content is exactly `content`.
  std::optional<int32_t> exact(std::string_view content) const;

 private:
  struct Node {
    uint32_t first_child = 0;  // Into edges_, sorted by byte.
    uint32_t child_count = 0;
    int32_t id = -1;  // Of the token that ends here.
  };
  struct Edge {
    uint8_t byte = 0;
    uint32_t node = 0;
  };
  struct Level;

  const Node* child(const Node& node, uint8_t byte) const;
  std::optional<Match> longest_at(std::string_view text, size_t begin) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<bool, 256> begins_{};
};

}  // namespace thimble::text
