// Turns a JSON schema into rules of a grammar: one for each of its parts, written one after the
// other.
//
// Parts are found by their address in the schema, so that a definition is one rule however often it
// is referred to, and recursion is a call. Values a schema allows may be left out of the language,
// none is added: an object has its listed properties in their order, then others if
// `additionalProperties` asks for them; a tuple has no more than its listed items unless `items`
// says so. Parameters of a call are an object in the markup of calls: strings stand as they are,
// and since a name must not come twice, at most one comes that is not listed. One thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "text/internal/json_rules.h"
#include "text/internal/schema_place.h"

namespace thimble::text {

// What a rule has of a schema.
enum class ValueForm {
  kJson,        // all values
  kText,        // its strings, as they are, and the close tag of a call's parameter
  kNotText,     // its other values
  kParameters,  // its objects, as the parameters of a call up to the call's close tag
};

// A rule that cannot be used, and why.
struct RuleFault {
  GrammarBuilder::Rule rule = 0;
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string_view why;
};

// Of all rules that were written.
std::vector<RuleFault> rule_faults(const GrammarBuilder& builder);

class SchemaCompiler {
 public:
  using At = GrammarBuilder::At;
  using Rule = GrammarBuilder::Rule;

  // All outlive it. Schemas of one grammar share the builder and the rules.
  SchemaCompiler(const SchemaJson& root, GrammarBuilder& builder, JsonRules& rules)
      : root_(root), builder_(builder), rules_(rules) {}

  // The rule of the whole schema, kJson or kParameters. Once: writes all its parts.
  Result<Rule> run(ValueForm form);

  // Names the place whose rule is the first with a fault, if there is one of this schema.
  Result<void> check(const std::vector<RuleFault>& faults) const;

 private:
  struct Part {
    const SchemaPlace* place = nullptr;
    ValueForm form = ValueForm::kJson;
  };
  struct Member {
    std::string name;
    bool required = false;
    std::optional<Rule> json = {};  // its values, or those that are no text
    std::optional<Rule> text = {};
  };
  // How members follow each other.
  struct Sequence {
    At none = 0;                                       // after the opening: there are none
    At end = 0;                                        // after the last one
    std::optional<At> others = {};                     // what is not listed begins so
    std::function<At(At)> go_on = {};                  // after one: another that begins so
    std::function<At(const Member&, At)> member = {};  // this one, then that
  };

  const SchemaPlace& place(SchemaPlace made);
  bool may_have(ValueForm form, const SchemaJson& schema);
  uint32_t types_in(const SchemaJson& schema, int hops = 0);
  Result<Rule> rule_of(const Part& part, int hops = 0);
  Result<Rule> json_rule(const SchemaPlace& at) { return rule_of({&at, ValueForm::kJson}); }
  Rule declare(const Part& part, uint32_t count_min, uint32_t count_max);
  Result<std::reference_wrapper<const SchemaPlace>> target_of(const SchemaPlace& place);
  Result<void> write(Rule rule, const Part& part);
  Result<At> body(const Part& part, At end);

  // Alternatives of the rule that is being written; each goes on at `end`.
  Result<std::vector<At>> alternatives(const Part& part, At end);
  Result<std::vector<At>> listed(const Part& part, At end);
  Result<std::vector<At>> branches(const Part& part, std::string_view keyword);
  Result<std::vector<At>> typed(const Part& part, At end);
  Result<At> string(const Part& part);
  Result<At> number(const SchemaPlace& place, uint32_t types, At end);
  Result<At> object(const SchemaPlace& place, At end);
  Result<At> parameters(const SchemaPlace& place, At end);
  Result<const SchemaPlace*> other_properties(const SchemaPlace& place);
  Result<std::vector<Member>> members(const Part& part, const SchemaPlace* others);
  Result<Member> member(std::string name, const Part& object, const SchemaPlace& value);
  static std::vector<std::string> names_of(const std::vector<Member>& members);
  At sequence(const std::vector<Member>& members, const Sequence& text);
  At object_text(const std::vector<Member>& members, std::optional<Rule> others, At end);
  At value_tags(const Member& member, At next);
  Result<At> array(const SchemaPlace& place, At end);

  const SchemaJson& root_;
  GrammarBuilder& builder_;
  JsonRules& rules_;
  std::deque<SchemaPlace> places_;
  std::map<const SchemaJson*, uint32_t> types_;
  std::map<std::pair<const SchemaJson*, ValueForm>, Rule> known_;
  std::map<Rule, const SchemaPlace*> written_;
  std::vector<std::pair<Rule, Part>> pending_;
};

}  // namespace thimble::text
