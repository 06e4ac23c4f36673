// Writes a Grammar, each rule from its end to its beginning: every part is told where to go on.
//
// One rule is written at a time, between begin_rule() and end_rule(); others can be declared, and
// called, before they are written. What is written is bounded: beyond the limits parts are dropped
// and is_full() says so. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar.h"

namespace thimble::text {

inline constexpr size_t kGrammarInstructionsMax = 1 << 16;
inline constexpr size_t kGrammarRangesMax = 1 << 18;

class GrammarBuilder {
 public:
  using At = uint32_t;  // an instruction
  using Rule = uint32_t;

  // A rule to be written later. Counts are compared with these bounds only.
  Rule declare(uint32_t count_min = 0, uint32_t count_max = kUncounted);

  // All rules of another grammar, as large as it is; what was its root.
  Rule add(const Grammar& grammar);

  void begin_rule(Rule rule) { rule_ = rule; }
  void end_rule(At entry) { grammar_.rules_[rule_].entry = entry; }

  At read(std::vector<ByteRange> ranges);
  At read(std::string_view any_of, At next);  // one of these bytes
  At split(At a, At b) { return emit({GrammarOp::kSplit, a, b}); }
  At call(Rule rule, At next) { return emit({GrammarOp::kCall, rule, next}); }
  At enter(Rule rule) { return emit({GrammarOp::kEnter, rule, 0}); }
  At leave() { return emit({GrammarOp::kReturn, 0, 0}); }
  // Counting, up to where it matters to the rule.
  At count(At next);
  At at_least(uint32_t n, At next);
  At below(uint32_t n, At next);
  // For loops: an instruction that goes on where set_jump() says later.
  At jump() { return emit({GrammarOp::kJump, 0, 0}); }
  void set_jump(At jump, At to) { grammar_.instructions_[jump].a = to; }

  At literal(std::string_view text, At next);
  // One of these texts, each with its own continuation; beginnings are shared. REQUIRES: none is
  // empty; of equal ones the first counts.
  At literals(std::vector<std::pair<std::string, At>> texts);
  // Any of these, at least one. REQUIRES: not empty.
  At any_of(const std::vector<At>& alternatives);

  bool is_full() const { return full_; }

  // Rules that no text completes, and rules that enter themselves, ascending.
  std::vector<Rule> endless_rules() const;
  std::vector<Rule> circular_rules() const;
  // Rules that may enter more than `most` others, one through the other: so many ways a text has.
  std::vector<Rule> crowded_rules(size_t most) const;

  // REQUIRES: all declared rules are written, none is endless or circular, not is_full().
  Grammar build(Rule root);

 private:
  At emit(GrammarInstruction instruction);
  std::vector<std::vector<Rule>> entered_rules() const;  // [rules]

  Grammar grammar_;
  Rule rule_ = 0;
  bool full_ = false;
};

}  // namespace thimble::text
