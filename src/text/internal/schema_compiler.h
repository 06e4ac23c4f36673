// Turns a JSON schema into a Grammar: a rule for each of its parts, written one after the other.
//
// Parts are found by their address in the schema, so that a definition is one rule however often it
// is referred to, and recursion is a call. Values a schema allows may be left out of the language,
// none is added: an object has its listed properties in their order, then others if
// `additionalProperties` asks for them; a tuple has no more than its listed items unless `items`
// says so. One thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "text/internal/json_rules.h"
#include "text/internal/schema_place.h"

namespace thimble::text {

class SchemaCompiler {
 public:
  using At = GrammarBuilder::At;
  using Rule = GrammarBuilder::Rule;

  // `root` must outlive it.
  explicit SchemaCompiler(const SchemaJson& root) : root_(root) {}

  // Once.
  Result<Grammar> run();

 private:
  struct Member {
    std::string name;
    Rule value = 0;
    bool required = false;
  };

  const SchemaPlace& place(SchemaPlace made);
  Result<Rule> rule_of(const SchemaPlace& place, int hops = 0);
  Result<std::reference_wrapper<const SchemaPlace>> target_of(const SchemaPlace& place);
  Result<void> write(Rule rule, const SchemaPlace& place);
  Result<void> check_rules(Rule root) const;

  // Alternatives of the rule that is being written; each goes on at `end`.
  Result<std::vector<At>> alternatives(const SchemaPlace& place, At end);
  Result<std::vector<At>> listed(const SchemaPlace& place, At end);
  Result<std::vector<At>> branches(const SchemaPlace& place, std::string_view keyword);
  Result<std::vector<At>> typed(const SchemaPlace& place, At end);
  Result<At> string(const SchemaPlace& place);
  Result<At> number(const SchemaPlace& place, uint32_t types, At end);
  Result<At> object(const SchemaPlace& place, At end);
  Result<std::vector<Member>> members(const SchemaPlace& place, std::optional<Rule> others);
  Result<std::optional<Rule>> other_properties(const SchemaPlace& place);
  At object_text(const std::vector<Member>& members, std::optional<Rule> others, At end);
  At other_member(const std::vector<Member>& members, Rule value, At next);
  Result<At> array(const SchemaPlace& place, At end);

  const SchemaJson& root_;
  GrammarBuilder builder_;
  JsonRules rules_{builder_};
  std::deque<SchemaPlace> places_;
  std::map<const SchemaJson*, Rule> known_;
  std::map<Rule, const SchemaPlace*> written_;
  std::vector<std::pair<Rule, const SchemaPlace*>> pending_;
};

}  // namespace thimble::text
