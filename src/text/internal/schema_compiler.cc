#include "text/internal/schema_compiler.h"

#include <cmath>
#include <set>
#include <utility>

#include "text/internal/call_markup.h"
#include "text/internal/key_rule.h"
#include "text/internal/number_rules.h"
#include "text/internal/schema_disjoint.h"
#include "text/json_text.h"
#include "text/tools.h"

namespace thimble::text {
namespace {

constexpr int kHopsMax = 16;                     // a longer chain of references may be a circle
constexpr uint32_t kFreeNameCharactersMax = 64;  // of a parameter that is not listed
constexpr int kTypeHopsMax = 64;  // of schemas within schemas; deeper ones may have any
constexpr size_t kNameBytesShown = 64;
constexpr size_t kAlternativesMax = 128;  // schemas within schemas, each counted
constexpr std::string_view kTooLarge =
    "the schema is too large: more than 65,536 steps of its grammar";

Result<std::optional<int64_t>> bound(const SchemaPlace& place, std::string_view name) {
  const SchemaJson* value = keyword(place, name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (std::abs(number) <= static_cast<double>(kNumberBoundMax) && number == std::floor(number)) {
    return static_cast<int64_t>(number);
  }
  return schema_error(
      ErrorCode::kUnsupported, place,
      fmt::format("'{}' must be a whole number between -10^15 and 10^15: no other bound is exact",
                  name));
}

// Both bounds of a side, the narrower one.
void narrow(std::optional<int64_t> inclusive, std::optional<int64_t> exclusive, int sign,
            int64_t& value, bool& excludes) {
  if (inclusive) value = *inclusive;
  if (!exclusive || (inclusive && (*exclusive - *inclusive) * sign < 0)) return;
  value = *exclusive;
  excludes = true;
}

uint32_t types_had(ValueForm form) {
  if (form == ValueForm::kText) return kTypeString;
  return form == ValueForm::kNotText ? kTypeAny & ~kTypeString : kTypeAny;
}

const SchemaJson& anything() {
  static const SchemaJson any = true;
  return any;
}

// What `enum` or `const` lists; empty: neither is there.
std::vector<const SchemaJson*> listed_values(const SchemaPlace& place) {
  std::vector<const SchemaJson*> out;
  if (const SchemaJson* list = keyword(place, "enum"); list != nullptr && list->is_array()) {
    for (const SchemaJson& value : *list) out.push_back(&value);
  } else if (const SchemaJson* only = keyword(place, "const")) {
    out.push_back(only);
  }
  return out;
}

}  // namespace

std::vector<RuleFault> rule_faults(const GrammarBuilder& builder) {
  std::vector<RuleFault> faults;
  const auto add = [&](const std::vector<GrammarBuilder::Rule>& rules, ErrorCode code,
                       std::string_view why) {
    for (const auto rule : rules) faults.push_back({rule, code, why});
  };
  add(builder.circular_rules(), ErrorCode::kInvalidArgument,
      "refers to itself without anything in between");
  add(builder.crowded_rules(kAlternativesMax), ErrorCode::kUnsupported,
      "too many alternatives for one value");
  add(builder.endless_rules(), ErrorCode::kInvalidArgument, "no value of finite length fits");
  return faults;
}

Result<SchemaCompiler::Rule> SchemaCompiler::run(ValueForm form) {
  const SchemaPlace& whole = place({&root_, nullptr, {}, "#"});
  const Part part{&whole, form};
  const Rule root = form == ValueForm::kParameters ? declare(part, 0, kFreeNameCharactersMax)
                                                   : THIMBLE_TRY(rule_of(part));
  while (!pending_.empty()) {
    const auto [rule, next] = pending_.back();
    pending_.pop_back();
    THIMBLE_TRY(write(rule, next));
    rules_.write_pending();
    if (builder_.is_full()) return schema_error(ErrorCode::kUnsupported, *next.place, kTooLarge);
  }
  rules_.write_pending();
  if (builder_.is_full()) return schema_error(ErrorCode::kUnsupported, whole, kTooLarge);
  return root;
}

Result<void> SchemaCompiler::check(const std::vector<RuleFault>& faults) const {
  for (const RuleFault& fault : faults) {
    const auto at = written_.find(fault.rule);
    if (at != written_.end()) return schema_error(fault.code, *at->second, fault.why);
  }
  return {};
}

const SchemaPlace& SchemaCompiler::place(SchemaPlace made) {
  places_.push_back(std::move(made));
  return places_.back();
}

// Where nothing fits at all, that is said where it is found.
bool SchemaCompiler::may_have(ValueForm form, const SchemaJson& schema) {
  const uint32_t types = types_in(schema);
  return types == 0 || (types & types_had(form)) != 0;
}

// All types that a value may have, if not more. What leads to itself adds nothing.
uint32_t SchemaCompiler::types_in(const SchemaJson& schema, int hops) {
  if (!schema.is_object() || hops > kTypeHopsMax) return kTypeAny;
  const auto [known, made] = types_.emplace(&schema, 0);
  if (!made) return known->second;
  const SchemaPlace at{&schema, nullptr, {}, "#"};
  uint32_t types = 0;
  for (const SchemaJson* value : listed_values(at)) types |= type_of_value(*value);
  if (keyword(at, "$ref") != nullptr) {
    const auto target = resolve_ref(root_, at);
    types = target ? types_in(**target, hops + 1) : static_cast<uint32_t>(kTypeAny);
  }
  bool said = keyword(at, "$ref") != nullptr || !listed_values(at).empty();
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const SchemaJson* list = keyword(at, name);
    if (list == nullptr) continue;
    said = true;
    for (const SchemaJson& one : *list) types |= types_in(one, hops + 1);
  }
  if (!said) types = types_of(at).value_or(kTypeAny);
  const SchemaJson* nullable = keyword(at, "nullable");
  if (nullable != nullptr && *nullable == true) types |= kTypeNull;
  return known->second = types;
}

SchemaCompiler::Rule SchemaCompiler::declare(const Part& part, uint32_t count_min,
                                             uint32_t count_max) {
  const Rule rule = builder_.declare(count_min, count_max);
  known_.emplace(std::pair(part.place->json, part.form), rule);
  written_.emplace(rule, part.place);
  pending_.emplace_back(rule, part);
  return rule;
}

// What is nothing but a reference has its target's rule: who refers to it shares its frames.
Result<SchemaCompiler::Rule> SchemaCompiler::rule_of(const Part& part, int hops) {
  const SchemaPlace& at = *part.place;
  const SchemaJson& json = *at.json;
  if (json == true || (json.is_object() && json.empty())) {
    if (part.form == ValueForm::kText) return rules_.text();
    return part.form == ValueForm::kNotText ? rules_.any_but_string() : rules_.any_value();
  }
  if (json == false) {
    return schema_error(ErrorCode::kInvalidArgument, at, "no value fits 'false'");
  }
  if (!json.is_object()) {
    return schema_error(ErrorCode::kInvalidArgument, at, "a schema must be an object or a boolean");
  }
  const auto known = known_.find({&json, part.form});
  if (known != known_.end()) return known->second;
  if (json.contains("$ref") && !json.contains("nullable") && hops < kHopsMax) {
    THIMBLE_TRY(check_keywords(at));
    const SchemaPlace& target = THIMBLE_TRY(target_of(at));
    return rule_of({&target, part.form}, hops + 1);
  }
  const auto min = THIMBLE_TRY(size_keyword(at, "minItems"));
  const auto max = THIMBLE_TRY(size_keyword(at, "maxItems"));
  return declare(part, min.value_or(0), max.value_or(kUncounted));
}

Result<std::reference_wrapper<const SchemaPlace>> SchemaCompiler::target_of(const SchemaPlace& at) {
  const SchemaJson* target = THIMBLE_TRY(resolve_ref(root_, at));
  return std::cref(place({target, nullptr, {}, keyword(at, "$ref")->get<std::string>()}));
}

Result<void> SchemaCompiler::write(Rule rule, const Part& part) {
  THIMBLE_TRY(check_keywords(*part.place));
  builder_.begin_rule(rule);
  const At end = builder_.leave();
  const At entry = part.form == ValueForm::kParameters ? THIMBLE_TRY(parameters(*part.place, end))
                                                       : THIMBLE_TRY(body(part, end));
  builder_.end_rule(entry);
  return {};
}

Result<SchemaCompiler::At> SchemaCompiler::body(const Part& part, At end) {
  const SchemaPlace& at = *part.place;
  std::vector<At> ways = THIMBLE_TRY(alternatives(part, end));
  if (const SchemaJson* nullable = keyword(at, "nullable")) {
    if (!nullable->is_boolean()) {
      return schema_error(ErrorCode::kInvalidArgument, at, "'nullable' must be a boolean");
    }
    const bool has_null = *nullable == true && (types_had(part.form) & kTypeNull) != 0;
    if (has_null) ways.push_back(builder_.literal("null", end));
  }
  if (ways.empty()) return schema_error(ErrorCode::kInvalidArgument, at, "no value fits");
  return builder_.any_of(ways);
}

Result<std::vector<SchemaCompiler::At>> SchemaCompiler::alternatives(const Part& part, At end) {
  const SchemaPlace& at = *part.place;
  if (keyword(at, "$ref") != nullptr) {
    const SchemaPlace& target = THIMBLE_TRY(target_of(at));
    const Rule rule = THIMBLE_TRY(rule_of({&target, part.form}));
    return std::vector<At>{builder_.enter(rule)};
  }
  if (keyword(at, "enum") != nullptr || keyword(at, "const") != nullptr) return listed(part, end);
  for (const std::string_view name : {"anyOf", "oneOf", "allOf"}) {
    if (keyword(at, name) != nullptr) return branches(part, name);
  }
  return typed(part, end);
}

// Values as they are, in one spelling.
Result<std::vector<SchemaCompiler::At>> SchemaCompiler::listed(const Part& part, At end) {
  const SchemaPlace& at = *part.place;
  const SchemaJson* list = keyword(at, "enum");
  if (list != nullptr && !list->is_array()) {
    return schema_error(ErrorCode::kInvalidArgument, at, "'enum' must be an array");
  }
  uint32_t types = types_had(part.form);
  if (keyword(at, "type") != nullptr) types &= THIMBLE_TRY(types_of(at));
  std::vector<std::pair<std::string, At>> texts;
  for (const SchemaJson* value : listed_values(at)) {
    if ((type_of_value(*value) & types) == 0) continue;
    const bool as_text = part.form == ValueForm::kText;
    texts.emplace_back(as_text ? value->get<std::string>().append(kParameterClose) : value->dump(),
                       end);
  }
  if (texts.empty()) return std::vector<At>{};
  return std::vector<At>{builder_.literals(std::move(texts))};
}

Result<std::vector<SchemaCompiler::At>> SchemaCompiler::branches(const Part& part,
                                                                 std::string_view name) {
  const SchemaPlace& at = *part.place;
  const SchemaJson& list = *keyword(at, name);
  if (!list.is_array() || list.empty()) {
    return schema_error(ErrorCode::kInvalidArgument, at,
                        fmt::format("'{}' must be an array that is not empty", name));
  }
  if (name == "allOf" && list.size() > 1) {
    return schema_error(ErrorCode::kUnsupported, at, "'allOf' of more than one is not supported");
  }
  if (name == "oneOf") THIMBLE_TRY(check_disjoint(root_, at));
  std::vector<At> ways;
  for (size_t i = 0; i < list.size(); ++i) {
    if (part.form != ValueForm::kJson && !may_have(part.form, list[i])) continue;
    const SchemaPlace& branch = place({&list[i], &at, name, std::to_string(i)});
    const Rule rule = THIMBLE_TRY(rule_of({&branch, part.form}));
    ways.push_back(builder_.enter(rule));
  }
  return ways;
}

Result<std::vector<SchemaCompiler::At>> SchemaCompiler::typed(const Part& part, At end) {
  const SchemaPlace& place = *part.place;
  const uint32_t types = THIMBLE_TRY(types_of(place)) & types_had(part.form);
  std::vector<At> ways;
  if ((types & kTypeObject) != 0) ways.push_back(THIMBLE_TRY(object(place, end)));
  if ((types & kTypeArray) != 0) ways.push_back(THIMBLE_TRY(array(place, end)));
  if ((types & kTypeString) != 0) ways.push_back(THIMBLE_TRY(string(part)));
  if ((types & (kTypeNumber | kTypeInteger)) != 0) {
    ways.push_back(THIMBLE_TRY(number(place, types, end)));
  }
  std::vector<std::pair<std::string, At>> words;
  if ((types & kTypeBoolean) != 0) words = {{"true", end}, {"false", end}};
  if ((types & kTypeNull) != 0) words.emplace_back("null", end);
  if (!words.empty()) ways.push_back(builder_.literals(std::move(words)));
  return ways;
}

Result<SchemaCompiler::At> SchemaCompiler::string(const Part& part) {
  const SchemaPlace& at = *part.place;
  const uint32_t min = THIMBLE_TRY(size_keyword(at, "minLength")).value_or(0);
  const uint32_t max = THIMBLE_TRY(size_keyword(at, "maxLength")).value_or(kUncounted);
  if (min > max) {
    return schema_error(ErrorCode::kInvalidArgument, at, "'minLength' is above 'maxLength'");
  }
  const bool as_text = part.form == ValueForm::kText;
  return builder_.enter(as_text ? rules_.text(min, max) : rules_.string(min, max));
}

Result<SchemaCompiler::At> SchemaCompiler::number(const SchemaPlace& place, uint32_t types,
                                                  At end) {
  const bool whole = (types & kTypeNumber) == 0;
  const auto low = THIMBLE_TRY(bound(place, "minimum"));
  const auto high = THIMBLE_TRY(bound(place, "maximum"));
  const auto above = THIMBLE_TRY(bound(place, "exclusiveMinimum"));
  const auto below = THIMBLE_TRY(bound(place, "exclusiveMaximum"));
  if (!low && !high && !above && !below) {
    return builder_.enter(whole ? rules_.integer() : rules_.number());
  }
  NumberBounds bounds;
  narrow(low, above, 1, bounds.low, bounds.excludes_low);
  narrow(high, below, -1, bounds.high, bounds.excludes_high);
  const NumberForm form = whole ? NumberForm::kWhole : NumberForm::kAny;
  if (is_empty(bounds, form)) {
    return schema_error(ErrorCode::kInvalidArgument, place, "no number lies within the bounds");
  }
  return bounded_number(builder_, rules_, bounds, form, end);
}

// What properties that are not listed have to be; none: there are no others.
Result<const SchemaPlace*> SchemaCompiler::other_properties(const SchemaPlace& at) {
  const SchemaJson* others = keyword(at, "additionalProperties");
  if (others == nullptr && keyword(at, "properties") == nullptr) others = &anything();
  if (others == nullptr || *others == false) return nullptr;
  return &place({others, &at, "additionalProperties", {}});
}

Result<SchemaCompiler::Member> SchemaCompiler::member(std::string name, const Part& object,
                                                      const SchemaPlace& value) {
  Member out{std::move(name)};
  if (object.form != ValueForm::kParameters) {
    out.json = THIMBLE_TRY(json_rule(value));
    return out;
  }
  if (!is_parameter_name(out.name)) {
    return schema_error(ErrorCode::kUnsupported, *object.place,
                        fmt::format("the parameter '{}' must have a name of 1 to {} bytes without "
                                    "quotes and control characters",
                                    out.name.substr(0, kNameBytesShown), kParameterNameBytesMax));
  }
  if (may_have(ValueForm::kNotText, *value.json)) {
    out.json = THIMBLE_TRY(rule_of({&value, ValueForm::kNotText}));
  }
  if (may_have(ValueForm::kText, *value.json)) {
    out.text = THIMBLE_TRY(rule_of({&value, ValueForm::kText}));
  }
  return out;
}

Result<std::vector<SchemaCompiler::Member>> SchemaCompiler::members(const Part& part,
                                                                    const SchemaPlace* others) {
  const SchemaPlace& at = *part.place;
  const SchemaJson none = SchemaJson::object();
  const SchemaJson* properties = keyword(at, "properties");
  if (properties != nullptr && !properties->is_object()) {
    return schema_error(ErrorCode::kInvalidArgument, at, "'properties' must be an object");
  }
  const SchemaJson* required = keyword(at, "required");
  if (required != nullptr && !required->is_array()) {
    return schema_error(ErrorCode::kInvalidArgument, at, "'required' must be an array of names");
  }
  std::set<std::string> needed;
  std::vector<Member> out;
  for (const SchemaJson& name : required != nullptr ? *required : none) {
    if (!name.is_string()) {
      return schema_error(ErrorCode::kInvalidArgument, at, "'required' must be an array of names");
    }
    needed.insert(name.get<std::string>());
  }
  for (const auto& [name, schema] : (properties != nullptr ? *properties : none).items()) {
    out.push_back(THIMBLE_TRY(member(name, part, place({&schema, &at, "properties", name}))));
    out.back().required = needed.erase(name) > 0;
  }
  for (const std::string& name : needed) {  // asked for, and described by additionalProperties only
    if (others == nullptr && keyword(at, "additionalProperties") != nullptr) {
      return schema_error(ErrorCode::kInvalidArgument, at,
                          "'required' names a property that 'additionalProperties' rules out");
    }
    const SchemaPlace& any = place({&anything(), &at, "required", name});
    out.push_back(THIMBLE_TRY(member(name, part, others != nullptr ? *others : any)));
    out.back().required = true;
  }
  return out;
}

std::vector<std::string> SchemaCompiler::names_of(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (const Member& member : members) names.push_back(member.name);
  return names;
}

// From the last member to the first. What may follow a member is the same for all ways that lead to
// it: the members after it, up to the next that is required.
SchemaCompiler::At SchemaCompiler::sequence(const std::vector<Member>& members,
                                            const Sequence& text) {
  GrammarBuilder& b = builder_;
  std::optional<At> next = text.others;  // the members that may come next
  bool may_end = true;
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    At after = text.end;
    if (next) {
      const At more = text.go_on(*next);
      after = may_end ? b.split(text.end, more) : more;
    }
    const At own = text.member(*member, after);
    next = next && !member->required ? b.split(own, *next) : own;
    may_end = may_end && !member->required;
  }
  if (!next) return text.none;
  return may_end ? b.split(text.none, *next) : *next;
}

Result<SchemaCompiler::At> SchemaCompiler::object(const SchemaPlace& at, At end) {
  const SchemaPlace* others = THIMBLE_TRY(other_properties(at));
  std::optional<Rule> rest;
  if (others != nullptr) rest = THIMBLE_TRY(json_rule(*others));
  const auto list = THIMBLE_TRY(members({&at, ValueForm::kJson}, others));
  if (list.empty() && rest == rules_.any_value()) return builder_.enter(rules_.any_object());
  return object_text(list, rest, end);
}

SchemaCompiler::At SchemaCompiler::object_text(const std::vector<Member>& members,
                                               std::optional<Rule> others, At end) {
  GrammarBuilder& b = builder_;
  Sequence text;
  text.none = b.read("}", end);
  text.end = rules_.spaced(text.none);
  text.go_on = [&](At next) { return b.read(",", rules_.spaced(next)); };
  const auto value = [&](Rule rule, At next) { return rules_.spaced(b.call(rule, next)); };
  text.member = [&](const Member& member, At next) {
    return b.literal(json_quoted(member.name) + ":", value(*member.json, next));
  };
  if (others) {
    const At loop = b.jump();
    text.others = other_key(b, names_of(members), kUncounted, b.read(":", value(*others, loop)));
    b.set_jump(loop, b.split(text.end, text.go_on(*text.others)));
  }
  return b.read("{", rules_.spaced(sequence(members, text)));
}

// No schema at all: no parameters.
Result<SchemaCompiler::At> SchemaCompiler::parameters(const SchemaPlace& at, At end) {
  GrammarBuilder& b = builder_;
  const bool none = at.json->empty();
  const uint32_t types = THIMBLE_TRY(types_of(at));
  if ((!none && types != kTypeObject) || !listed_values(at).empty()) {
    return schema_error(ErrorCode::kUnsupported, at,
                        "parameters of a call must be an object with its properties");
  }
  const Part part{&at, ValueForm::kParameters};
  const SchemaPlace* others = none ? nullptr : THIMBLE_TRY(other_properties(at));
  const auto list = THIMBLE_TRY(members(part, others));
  Sequence text;
  text.none = b.literal(kCallClose, end);
  text.end = text.none;
  text.go_on = [&](At next) { return b.literal(kBetween, next); };
  text.member = [&](const Member& member, At next) {
    return b.literal(fmt::format("{}\"{}\"", kParameterOpen, member.name),
                     value_tags(member, next));
  };
  if (others != nullptr) {
    const Member other = THIMBLE_TRY(member("other", part, *others));
    std::vector<std::string> names = names_of(list);
    names.emplace_back();  // nor is it empty
    text.others = b.literal(
        kParameterOpen, other_key(b, names, kFreeNameCharactersMax, value_tags(other, text.end)));
  }
  return sequence(list, text);
}

// What follows a parameter's name: its value, of either kind.
SchemaCompiler::At SchemaCompiler::value_tags(const Member& member, At next) {
  GrammarBuilder& b = builder_;
  std::vector<At> ways;
  if (member.text) ways.push_back(b.literal(kTextOpened, b.call(*member.text, next)));
  if (member.json) {
    const At close = b.literal(kParameterClose, next);
    ways.push_back(b.literal(kJsonOpened, b.call(*member.json, close)));
  }
  return b.any_of(ways);
}

Result<SchemaCompiler::At> SchemaCompiler::array(const SchemaPlace& at, At end) {
  GrammarBuilder& b = builder_;
  const uint32_t min = THIMBLE_TRY(size_keyword(at, "minItems")).value_or(0);
  const uint32_t max = THIMBLE_TRY(size_keyword(at, "maxItems")).value_or(kUncounted);
  // An array of schemas under 'items' is how older drafts say 'prefixItems'.
  const SchemaJson* items = keyword(at, "items");
  const SchemaJson* prefix = keyword(at, "prefixItems");
  std::string_view prefix_name = "prefixItems";
  if (prefix == nullptr && items != nullptr && items->is_array()) {
    prefix = std::exchange(items, nullptr);
    prefix_name = "items";
  }
  if (prefix != nullptr && !prefix->is_array()) {
    return schema_error(ErrorCode::kInvalidArgument, at, "'prefixItems' must be an array");
  }
  std::vector<Rule> first;
  for (size_t i = 0; prefix != nullptr && i < prefix->size(); ++i) {
    first.push_back(
        THIMBLE_TRY(json_rule(place({&(*prefix)[i], &at, prefix_name, std::to_string(i)}))));
  }
  std::optional<Rule> rest;
  if (items != nullptr && *items != false) {
    rest = THIMBLE_TRY(json_rule(place({items, &at, "items", {}})));
  } else if (items == nullptr && prefix == nullptr) {
    rest = rules_.any_value();
  }
  if (min > max || (!rest && min > first.size())) {
    return schema_error(ErrorCode::kInvalidArgument, at, "'minItems' is above what there may be");
  }
  const At close = b.read("]", end);
  const At done = b.at_least(min, rules_.spaced(close));
  At after = done;  // an item, when so many came as are listed, or more
  std::optional<At> item;
  if (rest) {
    const At loop = b.jump();
    item = b.call(*rest, b.count(loop));
    after = b.split(done, b.below(max, b.read(",", rules_.spaced(*item))));
    b.set_jump(loop, after);
  }
  for (auto rule = first.rbegin(); rule != first.rend(); ++rule) {
    item = b.call(*rule, b.count(after));
    after = b.split(done, b.below(max, b.read(",", rules_.spaced(*item))));
  }
  if (!item || max == 0) return b.read("[", rules_.spaced(close));
  return b.read("[", rules_.spaced(min == 0 ? b.split(close, *item) : *item));
}

}  // namespace thimble::text
