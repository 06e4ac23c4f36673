#include "server/plan_route.h"

#include <nlohmann/json.hpp>

#include "server/internal/json.h"
#include "text/utf8.h"

namespace thimble::server {
namespace {

using planner::PlanSubject;

constexpr size_t kQueryBytesMax = 4096;

ApiResult<PlanSubject> subject_of(const PlannedModel& model, const std::string& config) {
  if (config == "serving" && model.subject) return *model.subject;
  if (config == "released" || config == "serving") return PlanSubject(arch::released_config());
  std::string names;
  for (const planner::CacheDesign& design : planner::generations()) {
    if (design.id == config) return PlanSubject(design);
    names += ", " + design.id;
  }
  return bad_field("config", fmt::format("'{}' is not planned here, expected serving{}",
                                         text::to_valid_utf8(config.substr(0, 64)), names));
}

struct Wish {
  std::string config = "serving";
  bool charts = false;
  planner::PlanRequest request;
};

// '+' is a space in a query, whatever the path makes of it.
std::string decoded(std::string_view text) {
  std::string plain(text);
  for (char& c : plain) c = c == '+' ? ' ' : c;
  return net::percent_decode(plain);
}

ApiResult<Wish> parse_query(std::string_view query) {
  Wish wish;
  if (query.size() > kQueryBytesMax) {
    return bad_field(
        "query", fmt::format("{} bytes long, expected at most {}", query.size(), kQueryBytesMax));
  }
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(item.find('='), item.size());
    const std::string name = decoded(item.substr(0, equals));
    const std::string value = decoded(item.substr(std::min(equals + 1, item.size())));
    if (name == "config") {
      wish.config = value;
    } else if (name == "charts") {
      wish.charts = value == "1";
    } else if (!name.empty() && !value.empty()) {
      const auto set = planner::set_field(wish.request, name, value);
      if (!set) {
        return bad_field(text::to_valid_utf8(name), text::to_valid_utf8(set.error().describe()));
      }
    }
  }
  return wish;
}

OrderedJson fields_json() {
  const planner::PlanRequest defaults;
  OrderedJson out = OrderedJson::array();
  for (const planner::PlanField& field : planner::plan_fields()) {
    constexpr const char* kKinds[] = {"text", "count", "bytes", "real"};
    OrderedJson item = {{"name", field.name},
                        {"help", field.help},
                        {"kind", kKinds[static_cast<size_t>(field.kind)]},
                        {"default", field.get(defaults)}};
    if (field.high > 0) {
      item["low"] = field.low;
      item["high"] = field.high;
    }
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace

ApiResult<std::string> plan_json(const PlannedModel& model, std::string_view query) {
  const Wish wish = THIMBLE_TRY(parse_query(query));
  const PlanSubject subject = THIMBLE_TRY(subject_of(model, wish.config));
  const bool serving = wish.config == "serving" && model.subject;
  const auto plan = planner::make_plan(subject, serving ? model.name : wish.config, wish.request);
  if (!plan) return tl::unexpected(api_error(plan.error()));
  OrderedJson json = OrderedJson::parse(planner::to_json(*plan));
  json["fields"] = fields_json();
  for (const planner::Machine& machine : planner::machine_presets()) {
    json["machines"].push_back({{"name", machine.name}, {"what", machine.what}});
  }
  if (wish.charts) {
    for (const planner::Chart& chart : planner::charts(*plan))
      json["charts"][chart.name] = chart.picture;
  }
  return to_text(json);
}

}  // namespace thimble::server
