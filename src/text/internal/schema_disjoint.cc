#include "text/internal/schema_disjoint.h"

#include <algorithm>
#include <string_view>

namespace thimble::text {
namespace {

constexpr int kDepthMax = 16;
constexpr uint64_t kStepsMax = 200'000;  // of comparing; beyond them nothing more is seen

class Comparison {
 public:
  explicit Comparison(const SchemaJson& root) : root_(root) {}

  // False: not seen to be.
  bool disjoint(const SchemaJson& a, const SchemaJson& b, int depth) {
    if (++steps_ > kStepsMax || depth > kDepthMax || !a.is_object() || !b.is_object()) return false;
    const SchemaJson* in_a = inner(a);
    if (in_a != nullptr) return all_disjoint(*in_a, a, b, depth);
    const SchemaJson* in_b = inner(b);
    if (in_b != nullptr) return all_disjoint(*in_b, b, a, depth);
    const uint32_t common = types(a) & types(b);
    if (common == 0) return true;
    const auto values_a = values(a);
    const auto values_b = values(b);
    if (!values_a.empty() && !values_b.empty()) return none_equal(values_a, values_b);
    if (common != kTypeObject || !values_a.empty() || !values_b.empty()) return false;
    return told_apart(a, b, depth) || told_apart(b, a, depth);
  }

 private:
  // What a schema only refers to: one, or a list of alternatives.
  const SchemaJson* inner(const SchemaJson& schema) const {
    if (schema.contains("$ref")) {
      const auto target = resolve_ref(root_, {&schema, nullptr, {}, "#"});
      return target ? *target : nullptr;
    }
    for (const char* name : {"anyOf", "oneOf", "allOf"}) {
      const auto list = schema.find(name);
      if (list != schema.end() && list->is_array()) return &*list;
    }
    return nullptr;
  }

  bool all_disjoint(const SchemaJson& in, const SchemaJson& outer, const SchemaJson& other,
                    int depth) {
    if (is_nullable(outer) && (types(other) & kTypeNull) != 0) return false;
    if (!in.is_array()) return disjoint(in, other, depth + 1);
    return std::all_of(in.begin(), in.end(),
                       [&](const SchemaJson& one) { return disjoint(one, other, depth + 1); });
  }

  static bool is_nullable(const SchemaJson& schema) {
    const auto nullable = schema.find("nullable");
    return nullable != schema.end() && *nullable == true;
  }

  // All that fit, whatever we would write: without a type all do.
  uint32_t types(const SchemaJson& schema) const {
    if (inner(schema) != nullptr) return kTypeAny;
    uint32_t out = kTypeAny;
    if (const auto listed = values(schema); !listed.empty()) {
      out = 0;
      for (const SchemaJson* value : listed) out |= type_of_value(*value);
    } else if (schema.contains("type")) {
      out = types_of({&schema, nullptr, {}, "#"}).value_or(kTypeAny);
    }
    return is_nullable(schema) ? out | kTypeNull : out;
  }

  static std::vector<const SchemaJson*> values(const SchemaJson& schema) {
    std::vector<const SchemaJson*> out;
    if (const auto only = schema.find("const"); only != schema.end()) return {&*only};
    const auto list = schema.find("enum");
    if (list == schema.end() || !list->is_array()) return out;
    for (const SchemaJson& value : *list) out.push_back(&value);
    return out;
  }

  bool none_equal(const std::vector<const SchemaJson*>& a,
                  const std::vector<const SchemaJson*>& b) {
    steps_ += a.size() * b.size();
    if (steps_ > kStepsMax) return false;
    for (const SchemaJson* one : a) {
      for (const SchemaJson* other : b) {
        if (*one == *other) return false;
      }
    }
    return true;
  }

  // Does `a` require a property whose value tells it from `b`?
  bool told_apart(const SchemaJson& a, const SchemaJson& b, int depth) {
    const auto required = a.find("required");
    if (required == a.end() || !required->is_array()) return false;
    const auto of_a = a.find("properties");
    const auto of_b = b.find("properties");
    const auto others = b.find("additionalProperties");
    const bool closed = others != b.end() && *others == false;
    return std::any_of(required->begin(), required->end(), [&](const SchemaJson& json) {
      if (!json.is_string()) return false;
      const auto& name = json.get_ref<const std::string&>();
      const bool in_b = of_b != b.end() && of_b->contains(name);
      if (!in_b) return closed;
      return of_a != a.end() && of_a->contains(name) &&
             disjoint((*of_a)[name], (*of_b)[name], depth + 1);
    });
  }

  const SchemaJson& root_;
  uint64_t steps_ = 0;
};

}  // namespace

Result<void> check_disjoint(const SchemaJson& root, const SchemaPlace& place) {
  const SchemaJson& list = *keyword(place, "oneOf");
  Comparison comparison(root);
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = i + 1; j < list.size(); ++j) {
      if (comparison.disjoint(list[i], list[j], 0)) continue;
      return schema_error(
          ErrorCode::kUnsupported, place,
          fmt::format("'oneOf' whose alternatives {} and {} may both fit a value is not supported; "
                      "send 'anyOf' if that does no harm",
                      i, j));
    }
  }
  return {};
}

}  // namespace thimble::text
