// Which tokens of a vocabulary may follow a text, so that it stays the beginning of a text of a
// grammar.
//
// The vocabulary's tree is walked once for each way a text can end; what a token does inside the
// frames the state's threads stand in is kept, and only tokens that return from one of them are
// looked at anew in what called it. Holds what it worked out, within limits; one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "text/grammar.h"
#include "text/internal/piece_automaton.h"
#include "text/token_trie.h"

namespace thimble::text {

class TokenMasker {
 public:
  // REQUIRES: neither is null.
  TokenMasker(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie);

  const Grammar& grammar() const { return *grammar_; }
  const TokenTrie& trie() const { return *trie_; }

  // Sets bits to [vocab_size] bits, low ones first: 1 for a token that may follow.
  void allowed(const GrammarState& state, std::vector<uint64_t>& bits);

  // False: the token may not follow; then the state has no threads.
  bool accept(GrammarState& state, int32_t token) const;

 private:
  using Id = PieceAutomaton::Id;
  // A state as it looks from inside the frames its threads stand in.
  struct Inside {
    Id id = 0;
    std::vector<uint32_t> frames;  // of the state: the outer ones of `id`
  };
  // A node of the tree, and the inner state its text leads to, which has left outer frames.
  struct Exit {
    uint32_t node = 0;
    Id id = 0;
  };
  struct Mask {
    std::vector<uint64_t> bits;
    std::vector<Exit> exits;
  };
  struct Pending {
    std::vector<uint32_t> frames;  // of the state; ascending
    uint32_t node = 0;
  };

  Inside inside_of(const GrammarState& state);
  uint32_t shortened(uint32_t instruction, uint32_t count) const;
  const Mask& mask_of(Id id);
  void walk(Id id, uint32_t node, Mask& mask);
  void forget();

  const std::shared_ptr<const Grammar> grammar_;
  const std::shared_ptr<const TokenTrie> trie_;
  PieceAutomaton automaton_;
  std::map<Id, Mask> masks_;
  std::vector<Id> path_;  // of a walk: states by depth
};

}  // namespace thimble::text
