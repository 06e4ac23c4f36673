// What a piece of text does to a grammar's state, whatever lies around it.
//
// Its states are GrammarStates whose outer frames have no known callers: a return from one of those
// is noted and goes nowhere. So one state stands for all texts that end alike, and its moves are
// worked out once: a table from bytes to states, filled as it is asked. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "text/grammar.h"

namespace thimble::text {

class PieceAutomaton {
 public:
  using Id = uint32_t;
  static constexpr Id kDead = UINT32_MAX;

  // `grammar` must outlive it.
  explicit PieceAutomaton(const Grammar& grammar) : grammar_(grammar) {}

  Id id_of(const GrammarState& state);
  // kDead: no text goes on so.
  Id next(Id id, uint8_t byte) {
    Id& known = row(id)[byte];
    if (known == kUnknown) known = work_out(id, byte);
    return known;
  }
  // Outer frames that were returned from with the last byte.
  const std::vector<uint32_t>& left(Id id) const { return states_[id]->left; }

  // Grows with what is asked; ids from before clear() mean nothing after it.
  size_t rows() const { return rows_in_use_; }
  size_t size() const { return states_.size(); }
  void clear();

 private:
  static constexpr Id kUnknown = UINT32_MAX - 1;
  using Row = std::array<Id, 256>;

  Row& row(Id id);
  Id work_out(Id id, uint8_t byte);

  const Grammar& grammar_;
  std::map<GrammarState, Id> ids_;
  std::vector<const GrammarState*> states_;  // keys of ids_
  std::vector<std::unique_ptr<Row>> rows_;   // null: nothing was asked yet
  size_t rows_in_use_ = 0;
};

}  // namespace thimble::text
