#include "text/internal/piece_automaton.h"

namespace thimble::text {

PieceAutomaton::Id PieceAutomaton::id_of(const GrammarState& state) {
  const auto [at, made] = ids_.emplace(state, static_cast<Id>(states_.size()));
  if (made) {
    states_.push_back(&at->first);
    rows_.emplace_back();
  }
  return at->second;
}

PieceAutomaton::Row& PieceAutomaton::row(Id id) {
  if (rows_[id] == nullptr) {
    rows_[id] = std::make_unique<Row>();
    rows_[id]->fill(kUnknown);
    ++rows_in_use_;
  }
  return *rows_[id];
}

PieceAutomaton::Id PieceAutomaton::work_out(Id id, uint8_t byte) {
  GrammarState state = *states_[id];
  return grammar_.read(state, byte) ? id_of(state) : kDead;
}

void PieceAutomaton::clear() {
  ids_.clear();
  states_.clear();
  rows_.clear();
  rows_in_use_ = 0;
}

}  // namespace thimble::text
