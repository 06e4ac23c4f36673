#include "text/internal/key_rule.h"

#include <algorithm>
#include <array>
#include <map>

#include "text/internal/json_rules.h"

namespace thimble::text {
namespace {

using At = GrammarBuilder::At;

// A name that needs escapes cannot come up.
bool is_plain(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
  });
}

// Beginnings of names.
struct Node {
  std::map<uint8_t, size_t> children;  // behind their parent
  size_t state = kBetweenCharacters;
  bool is_name = false;
};

const CharacterMove& move_by(size_t state, uint8_t byte) {
  const auto moves = character_moves(state);
  return *std::find_if(moves.begin(), moves.end(), [&](const CharacterMove& move) {
    return move.low <= byte && byte <= move.high;
  });
}

std::vector<Node> beginnings(const std::vector<std::string>& names) {
  std::vector<Node> nodes(1);
  for (const std::string& name : names) {
    if (!is_plain(name)) continue;
    size_t node = 0;
    for (const char c : name) {
      const auto byte = static_cast<uint8_t>(c);
      const auto [child, made] = nodes[node].children.emplace(byte, nodes.size());
      const size_t to = child->second;
      if (made) nodes.push_back({{}, move_by(nodes[node].state, byte).to, false});
      node = to;
    }
    nodes[node].is_name = true;
  }
  return nodes;
}

// Any characters up to the closing quote, by the state they begin in.
std::array<At, kCharacterStates> free_characters(GrammarBuilder& builder, uint32_t characters_max,
                                                 At next) {
  const bool counts = characters_max != kUncounted;
  const At loop = builder.jump();
  std::array<At, kCharacterStates> at{counts ? builder.count(loop) : loop};
  for (size_t state = 1; state < kCharacterStates; ++state) {
    const CharacterMove& move = character_moves(state)[0];
    at[state] = builder.read({{move.low, move.high, at[move.to]}});
  }
  std::vector<ByteRange> ranges;
  for (const CharacterMove& move : character_moves(kBetweenCharacters)) {
    ranges.push_back({move.low, move.high, at[move.to]});
  }
  const At more = builder.below(characters_max, builder.read(std::move(ranges)));
  builder.set_jump(loop, builder.split(more, builder.read("\"", next)));
  return at;
}

}  // namespace

At other_key(GrammarBuilder& builder, const std::vector<std::string>& names,
             uint32_t characters_max, At next) {
  const auto free = free_characters(builder, characters_max, next);
  const std::vector<Node> nodes = beginnings(names);
  std::vector<At> at(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    std::vector<ByteRange> ranges;
    if (node.state == kBetweenCharacters && !node.is_name) ranges.push_back({'"', '"', next});
    for (const CharacterMove& move : character_moves(node.state)) {
      uint32_t low = move.low;  // bytes between children leave the names behind
      const auto leave_below = [&](uint32_t end) {
        if (low < end) {
          ranges.push_back(
              {static_cast<uint8_t>(low), static_cast<uint8_t>(end - 1), free[move.to]});
        }
        low = end + 1;
      };
      for (const auto& [byte, child] : node.children) {
        if (byte < move.low || byte > move.high) continue;
        leave_below(byte);
        ranges.push_back({byte, byte, at[child]});
      }
      leave_below(move.high + 1U);
    }
    at[i] = builder.read(std::move(ranges));
  }
  return builder.read("\"", at[0]);
}

}  // namespace thimble::text
