#include "text/internal/grammar_builder.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

namespace thimble::text {

GrammarBuilder::Rule GrammarBuilder::declare(uint32_t count_min, uint32_t count_max) {
  grammar_.rules_.push_back({0, count_min, count_max});
  return static_cast<Rule>(grammar_.rules_.size() - 1);
}

GrammarBuilder::Rule GrammarBuilder::add(const Grammar& grammar) {
  const auto at = static_cast<uint32_t>(grammar_.instructions_.size());
  const auto range = static_cast<uint32_t>(grammar_.ranges_.size());
  const auto rule = static_cast<uint32_t>(grammar_.rules_.size());
  for (GrammarInstruction now : grammar.instructions_) {
    const bool reads = now.op == GrammarOp::kRead;
    const bool names_rule = now.op == GrammarOp::kCall || now.op == GrammarOp::kEnter;
    now.a += reads ? range : names_rule ? rule : at;
    if (now.op == GrammarOp::kSplit || now.op == GrammarOp::kCall) now.b += at;
    grammar_.instructions_.push_back(now);
  }
  for (const uint32_t owner : grammar.owners_) grammar_.owners_.push_back(owner + rule);
  for (const ByteRange& one : grammar.ranges_) {
    grammar_.ranges_.push_back({one.low, one.high, one.next + at});
  }
  for (const GrammarRule& one : grammar.rules_) {
    grammar_.rules_.push_back({one.entry + at, one.count_min, one.count_max});
  }
  return grammar.root_ + rule;
}

GrammarBuilder::At GrammarBuilder::emit(GrammarInstruction instruction) {
  if (grammar_.instructions_.size() >= kGrammarInstructionsMax) {
    full_ = true;
    return 0;
  }
  grammar_.instructions_.push_back(instruction);
  grammar_.owners_.push_back(rule_);
  return static_cast<At>(grammar_.instructions_.size() - 1);
}

GrammarBuilder::At GrammarBuilder::read(std::vector<ByteRange> ranges) {
  CHECK(!ranges.empty());
  const size_t begin = grammar_.ranges_.size();
  if (begin + ranges.size() > kGrammarRangesMax) {
    full_ = true;
    return 0;
  }
  grammar_.ranges_.insert(grammar_.ranges_.end(), ranges.begin(), ranges.end());
  return emit(
      {GrammarOp::kRead, static_cast<uint32_t>(begin), static_cast<uint32_t>(ranges.size())});
}

GrammarBuilder::At GrammarBuilder::read(std::string_view any_of, At next) {
  std::vector<ByteRange> ranges;
  for (const char c : any_of) {
    ranges.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c), next});
  }
  return read(std::move(ranges));
}

GrammarBuilder::At GrammarBuilder::count(At next) {
  const GrammarRule& rule = grammar_.rules_[rule_];
  const uint32_t last = rule.count_max == kUncounted ? rule.count_min : rule.count_max;
  return last == 0 ? next : emit({GrammarOp::kCount, next, last});
}

GrammarBuilder::At GrammarBuilder::at_least(uint32_t n, At next) {
  return n == 0 ? next : emit({GrammarOp::kAtLeast, next, n});
}

GrammarBuilder::At GrammarBuilder::below(uint32_t n, At next) {
  return n == kUncounted ? next : emit({GrammarOp::kBelow, next, n});
}

GrammarBuilder::At GrammarBuilder::literal(std::string_view text, At next) {
  for (auto c = text.rbegin(); c != text.rend(); ++c) next = read({&*c, 1}, next);
  return next;
}

GrammarBuilder::At GrammarBuilder::literals(std::vector<std::pair<std::string, At>> texts) {
  struct Node {
    std::map<uint8_t, size_t> children;
    const At* end = nullptr;
  };
  std::vector<Node> nodes(1);
  for (const auto& [text, next] : texts) {
    size_t node = 0;
    for (const char c : text) {
      const auto [child, made] =
          nodes[node].children.emplace(static_cast<uint8_t>(c), nodes.size());
      node = child->second;
      if (made) nodes.emplace_back();
    }
    if (nodes[node].end == nullptr) nodes[node].end = &next;
  }
  // Children come after their parents.
  std::vector<At> at(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    std::vector<ByteRange> ranges;
    for (const auto& [byte, child] : nodes[i].children) ranges.push_back({byte, byte, at[child]});
    if (ranges.empty()) {
      at[i] = *nodes[i].end;
    } else {
      at[i] = read(std::move(ranges));
      if (nodes[i].end != nullptr) at[i] = split(*nodes[i].end, at[i]);
    }
  }
  return at[0];
}

GrammarBuilder::At GrammarBuilder::any_of(const std::vector<At>& alternatives) {
  CHECK(!alternatives.empty());
  At at = alternatives.back();
  for (size_t i = alternatives.size() - 1; i-- > 0;) at = split(alternatives[i], at);
  return at;
}

// Instructions and rules are nodes of one graph; what leads to a return is found backwards from the
// returns. A call needs its rule and what follows it.
std::vector<GrammarBuilder::Rule> GrammarBuilder::endless_rules() const {
  const auto& instructions = grammar_.instructions_;
  const auto& rules = grammar_.rules_;
  const size_t rule_base = instructions.size();
  std::vector<std::vector<uint32_t>> dependents(rule_base + rules.size());
  std::vector<uint8_t> missing(rule_base + rules.size(), 1);
  std::vector<uint32_t> ends;
  const auto needs = [&](size_t node, size_t other) {
    dependents[other].push_back(static_cast<uint32_t>(node));
  };
  for (size_t i = 0; i < instructions.size(); ++i) {
    const GrammarInstruction& now = instructions[i];
    if (now.op == GrammarOp::kReturn) {
      ends.push_back(static_cast<uint32_t>(i));
    } else if (now.op == GrammarOp::kRead) {
      for (uint32_t r = now.a; r < now.a + now.b; ++r) needs(i, grammar_.ranges_[r].next);
    } else if (now.op == GrammarOp::kCall || now.op == GrammarOp::kEnter) {
      needs(i, rule_base + now.a);
      if (now.op == GrammarOp::kCall) needs(i, now.b);
      missing[i] = now.op == GrammarOp::kCall ? 2 : 1;
    } else {
      needs(i, now.a);
      if (now.op == GrammarOp::kSplit) needs(i, now.b);
    }
  }
  for (size_t r = 0; r < rules.size(); ++r) needs(rule_base + r, rules[r].entry);
  for (const uint32_t end : ends) missing[end] = 0;
  while (!ends.empty()) {
    const uint32_t done = ends.back();
    ends.pop_back();
    for (const uint32_t node : dependents[done]) {
      if (missing[node] > 0 && --missing[node] == 0) ends.push_back(node);
    }
  }
  std::vector<Rule> endless;
  for (size_t r = 0; r < rules.size(); ++r) {
    if (missing[rule_base + r] > 0) endless.push_back(static_cast<Rule>(r));
  }
  return endless;
}

std::vector<std::vector<GrammarBuilder::Rule>> GrammarBuilder::entered_rules() const {
  std::vector<std::vector<Rule>> out(grammar_.rules_.size());
  for (size_t i = 0; i < grammar_.instructions_.size(); ++i) {
    const GrammarInstruction& now = grammar_.instructions_[i];
    if (now.op == GrammarOp::kEnter) out[grammar_.owners_[i]].push_back(now.a);
  }
  return out;
}

std::vector<GrammarBuilder::Rule> GrammarBuilder::crowded_rules(size_t most) const {
  const auto enters = entered_rules();
  std::vector<Rule> crowded;
  for (size_t r = 0; r < enters.size(); ++r) {
    std::set<Rule> seen;
    std::vector<Rule> todo = {static_cast<Rule>(r)};
    while (!todo.empty() && seen.size() <= most) {
      const Rule rule = todo.back();
      todo.pop_back();
      for (const Rule next : enters[rule]) {
        if (seen.insert(next).second) todo.push_back(next);
        if (seen.size() > most) break;
      }
    }
    if (seen.size() > most) crowded.push_back(static_cast<Rule>(r));
  }
  return crowded;
}

// Rules are taken away that enter none of those left; what stays enters itself in the end, or one
// that does.
std::vector<GrammarBuilder::Rule> GrammarBuilder::circular_rules() const {
  const auto& rules = grammar_.rules_;
  const auto entered = entered_rules();
  std::vector<std::vector<Rule>> entered_by(rules.size());
  std::vector<size_t> enters(rules.size(), 0);
  for (size_t r = 0; r < rules.size(); ++r) {
    enters[r] = entered[r].size();
    for (const Rule rule : entered[r]) entered_by[rule].push_back(static_cast<Rule>(r));
  }
  std::vector<Rule> free;
  for (size_t r = 0; r < rules.size(); ++r) {
    if (enters[r] == 0) free.push_back(static_cast<Rule>(r));
  }
  while (!free.empty()) {
    const Rule done = free.back();
    free.pop_back();
    for (const Rule by : entered_by[done]) {
      if (--enters[by] == 0) free.push_back(by);
    }
  }
  std::vector<Rule> circular;
  for (size_t r = 0; r < rules.size(); ++r) {
    if (enters[r] > 0) circular.push_back(static_cast<Rule>(r));
  }
  return circular;
}

Grammar GrammarBuilder::build(Rule root) {
  CHECK(!full_);
  grammar_.root_ = root;
  return std::move(grammar_);
}

}  // namespace thimble::text
