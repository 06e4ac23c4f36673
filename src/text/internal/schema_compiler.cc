#include "text/internal/schema_compiler.h"

#include <cmath>
#include <set>
#include <utility>

#include "text/internal/key_rule.h"
#include "text/internal/number_rules.h"
#include "text/internal/schema_disjoint.h"
#include "text/json_text.h"

namespace thimble::text {
namespace {

constexpr int kHopsMax = 16;              // a longer chain of references may be a circle
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

}  // namespace

Result<Grammar> SchemaCompiler::run() {
  const SchemaPlace& whole = place({&root_, nullptr, {}, "#"});
  const Rule root = THIMBLE_TRY(rule_of(whole));
  while (!pending_.empty()) {
    const auto [rule, at] = pending_.back();
    pending_.pop_back();
    THIMBLE_TRY(write(rule, *at));
    rules_.write_pending();
    if (builder_.is_full()) return schema_error(ErrorCode::kUnsupported, *at, kTooLarge);
  }
  rules_.write_pending();
  if (builder_.is_full()) return schema_error(ErrorCode::kUnsupported, whole, kTooLarge);
  THIMBLE_TRY(check_rules(root));
  return builder_.build(root);
}

Result<void> SchemaCompiler::check_rules(Rule root) const {
  const auto refuse = [&](Rule rule, std::string_view why,
                          ErrorCode code = ErrorCode::kInvalidArgument) {
    const auto at = written_.find(rule);
    return schema_error(code, *(at == written_.end() ? written_.at(root) : at->second), why);
  };
  const auto circular = builder_.circular_rules();
  if (!circular.empty()) {
    return refuse(circular.front(), "refers to itself without anything in between");
  }
  const auto crowded = builder_.crowded_rules(kAlternativesMax);
  if (!crowded.empty()) {
    return refuse(crowded.front(), "too many alternatives for one value", ErrorCode::kUnsupported);
  }
  const auto endless = builder_.endless_rules();
  if (!endless.empty()) return refuse(endless.front(), "no value of finite length fits");
  return {};
}

const SchemaPlace& SchemaCompiler::place(SchemaPlace made) {
  places_.push_back(std::move(made));
  return places_.back();
}

// What is nothing but a reference has its target's rule: who refers to it shares its frames.
Result<SchemaCompiler::Rule> SchemaCompiler::rule_of(const SchemaPlace& place, int hops) {
  const SchemaJson& json = *place.json;
  if (json == true || (json.is_object() && json.empty())) return rules_.any_value();
  if (json == false) {
    return schema_error(ErrorCode::kInvalidArgument, place, "no value fits 'false'");
  }
  if (!json.is_object()) {
    return schema_error(ErrorCode::kInvalidArgument, place,
                        "a schema must be an object or a boolean");
  }
  const auto known = known_.find(&json);
  if (known != known_.end()) return known->second;
  if (json.contains("$ref") && !json.contains("nullable") && hops < kHopsMax) {
    THIMBLE_TRY(check_keywords(place));
    const SchemaPlace& target = THIMBLE_TRY(target_of(place));
    return rule_of(target, hops + 1);
  }
  const auto min = THIMBLE_TRY(size_keyword(place, "minItems"));
  const auto max = THIMBLE_TRY(size_keyword(place, "maxItems"));
  const Rule rule = builder_.declare(min.value_or(0), max.value_or(kUncounted));
  known_.emplace(&json, rule);
  written_.emplace(rule, &place);
  pending_.emplace_back(rule, &place);
  return rule;
}

Result<std::reference_wrapper<const SchemaPlace>> SchemaCompiler::target_of(const SchemaPlace& at) {
  const SchemaJson* target = THIMBLE_TRY(resolve_ref(root_, at));
  return std::cref(place({target, nullptr, {}, keyword(at, "$ref")->get<std::string>()}));
}

Result<void> SchemaCompiler::write(Rule rule, const SchemaPlace& place) {
  THIMBLE_TRY(check_keywords(place));
  builder_.begin_rule(rule);
  const At end = builder_.leave();
  std::vector<At> ways = THIMBLE_TRY(alternatives(place, end));
  if (const SchemaJson* nullable = keyword(place, "nullable")) {
    if (!nullable->is_boolean()) {
      return schema_error(ErrorCode::kInvalidArgument, place, "'nullable' must be a boolean");
    }
    if (*nullable == true) ways.push_back(builder_.literal("null", end));
  }
  if (ways.empty()) return schema_error(ErrorCode::kInvalidArgument, place, "no value fits");
  builder_.end_rule(builder_.any_of(ways));
  return {};
}

Result<std::vector<SchemaCompiler::At>> SchemaCompiler::alternatives(const SchemaPlace& at,
                                                                     At end) {
  if (keyword(at, "$ref") != nullptr) {
    const SchemaPlace& target = THIMBLE_TRY(target_of(at));
    const Rule rule = THIMBLE_TRY(rule_of(target));
    return std::vector<At>{builder_.enter(rule)};
  }
  if (keyword(at, "enum") != nullptr || keyword(at, "const") != nullptr) return listed(at, end);
  for (const std::string_view name : {"anyOf", "oneOf", "allOf"}) {
    if (keyword(at, name) != nullptr) return branches(at, name);
  }
  return typed(at, end);
}

// Values as they are, in one spelling.
Result<std::vector<SchemaCompiler::At>> SchemaCompiler::listed(const SchemaPlace& place, At end) {
  const SchemaJson* list = keyword(place, "enum");
  if (list != nullptr && !list->is_array()) {
    return schema_error(ErrorCode::kInvalidArgument, place, "'enum' must be an array");
  }
  const uint32_t types = keyword(place, "type") != nullptr ? THIMBLE_TRY(types_of(place))
                                                           : static_cast<uint32_t>(kTypeAny);
  std::vector<std::pair<std::string, At>> texts;
  const auto add = [&](const SchemaJson& value) {
    if ((type_of_value(value) & types) != 0) texts.emplace_back(value.dump(), end);
  };
  if (list == nullptr) {
    add(*keyword(place, "const"));
  } else {
    for (const SchemaJson& value : *list) add(value);
  }
  if (texts.empty()) return std::vector<At>{};
  return std::vector<At>{builder_.literals(std::move(texts))};
}

Result<std::vector<SchemaCompiler::At>> SchemaCompiler::branches(const SchemaPlace& at,
                                                                 std::string_view name) {
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
    const Rule rule = THIMBLE_TRY(rule_of(place({&list[i], &at, name, std::to_string(i)})));
    ways.push_back(builder_.enter(rule));
  }
  return ways;
}

Result<std::vector<SchemaCompiler::At>> SchemaCompiler::typed(const SchemaPlace& place, At end) {
  const uint32_t types = THIMBLE_TRY(types_of(place));
  std::vector<At> ways;
  if ((types & kTypeObject) != 0) ways.push_back(THIMBLE_TRY(object(place, end)));
  if ((types & kTypeArray) != 0) ways.push_back(THIMBLE_TRY(array(place, end)));
  if ((types & kTypeString) != 0) ways.push_back(THIMBLE_TRY(string(place)));
  if ((types & (kTypeNumber | kTypeInteger)) != 0) {
    ways.push_back(THIMBLE_TRY(number(place, types, end)));
  }
  std::vector<std::pair<std::string, At>> words;
  if ((types & kTypeBoolean) != 0) words = {{"true", end}, {"false", end}};
  if ((types & kTypeNull) != 0) words.emplace_back("null", end);
  if (!words.empty()) ways.push_back(builder_.literals(std::move(words)));
  return ways;
}

Result<SchemaCompiler::At> SchemaCompiler::string(const SchemaPlace& place) {
  const auto min = THIMBLE_TRY(size_keyword(place, "minLength"));
  const auto max = THIMBLE_TRY(size_keyword(place, "maxLength"));
  if (min.value_or(0) > max.value_or(kUncounted)) {
    return schema_error(ErrorCode::kInvalidArgument, place, "'minLength' is above 'maxLength'");
  }
  return builder_.enter(rules_.string(min.value_or(0), max.value_or(kUncounted)));
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

// The rule of properties that are not listed; none: there are no others.
Result<std::optional<SchemaCompiler::Rule>> SchemaCompiler::other_properties(
    const SchemaPlace& at) {
  const SchemaJson* others = keyword(at, "additionalProperties");
  if (others == nullptr && keyword(at, "properties") == nullptr) return rules_.any_value();
  if (others == nullptr || *others == false) return std::nullopt;
  return THIMBLE_TRY(rule_of(place({others, &at, "additionalProperties", {}})));
}

Result<std::vector<SchemaCompiler::Member>> SchemaCompiler::members(const SchemaPlace& at,
                                                                    std::optional<Rule> others) {
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
    const Rule value = THIMBLE_TRY(rule_of(place({&schema, &at, "properties", name})));
    out.push_back({name, value, needed.erase(name) > 0});
  }
  for (const std::string& name : needed) {  // asked for, and described by additionalProperties only
    if (!others && keyword(at, "additionalProperties") != nullptr) {
      return schema_error(ErrorCode::kInvalidArgument, at,
                          "'required' names a property that 'additionalProperties' rules out");
    }
    out.push_back({name, others ? *others : rules_.any_value(), true});
  }
  return out;
}

Result<SchemaCompiler::At> SchemaCompiler::object(const SchemaPlace& place, At end) {
  const auto others = THIMBLE_TRY(other_properties(place));
  const auto list = THIMBLE_TRY(members(place, others));
  if (list.empty() && others == rules_.any_value()) return builder_.enter(rules_.any_object());
  return object_text(list, others, end);
}

// From the last member to the first. What may follow a member is the same for all ways that lead to
// it: the members after it, up to the next that is required.
SchemaCompiler::At SchemaCompiler::object_text(const std::vector<Member>& members,
                                               std::optional<Rule> others, At end) {
  GrammarBuilder& b = builder_;
  const At close = b.read("}", end);
  const At spaced_close = rules_.spaced(close);
  std::optional<At> keys;  // the keys that may come next
  std::optional<At> after = spaced_close;
  if (others) {
    const At loop = b.jump();
    keys = other_member(members, *others, loop);
    after = b.split(spaced_close, b.read(",", rules_.spaced(*keys)));
    b.set_jump(loop, *after);
  }
  bool may_close = true;
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    const At value = rules_.spaced(b.call(member->value, *after));
    const At own = b.literal(json_quoted(member->name) + ":", value);
    keys = keys && !member->required ? b.split(own, *keys) : own;
    may_close = may_close && !member->required;
    const At more = b.read(",", rules_.spaced(*keys));
    after = may_close ? b.split(spaced_close, more) : more;
  }
  if (!keys) return b.read("{", rules_.spaced(close));
  return b.read("{", rules_.spaced(may_close ? b.split(close, *keys) : *keys));
}

// A member under a name that is none of the listed ones.
SchemaCompiler::At SchemaCompiler::other_member(const std::vector<Member>& members, Rule value,
                                                At next) {
  std::vector<std::string> names;
  for (const Member& member : members) names.push_back(member.name);
  const At after = builder_.read(":", rules_.spaced(builder_.call(value, next)));
  return other_key(builder_, names, after);
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
        THIMBLE_TRY(rule_of(place({&(*prefix)[i], &at, prefix_name, std::to_string(i)}))));
  }
  std::optional<Rule> rest;
  if (items != nullptr && *items != false) {
    rest = THIMBLE_TRY(rule_of(place({items, &at, "items", {}})));
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
