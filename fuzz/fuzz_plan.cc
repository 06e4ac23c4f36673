// A plan's wishes from strangers: the query of GET /v1/plan.
//
// The first byte chooses: a mix of layers, which as text parses to the same layers; or a query
// about a small model, of which no plan has a number that JSON cannot say.
#include <string_view>

#include "base/check.h"
#include "planner/modes.h"
#include "server/plan_route.h"

namespace thimble::server {
namespace {

arch::Config small_config() {
  arch::Config config = arch::released_config();
  config.vocab_size = 512;
  config.n_routed_experts = 8;
  config.engram = {};
  config.draft = {};
  config.vision.reset();
  config.image_token_id.reset();
  const auto modes = planner::parse_modes("S,F2,U,F1,R");
  CHECK(modes.has_value());
  const auto small = planner::with_modes(config, *modes);
  CHECK(small.has_value());
  return *small;
}

void check_query(const PlannedModel& model, std::string_view query) {
  const auto plan = plan_json(model, query);
  if (!plan) {
    CHECK_EQ(plan.error().status, 400u);
    CHECK(!plan.error().message.empty());
    return;
  }
  CHECK(plan->find(":null") == std::string::npos);
}

void check_modes(std::string_view text) {
  const auto modes = planner::parse_modes(text);
  if (!modes) return;
  const auto again = planner::parse_modes(planner::to_string(*modes));
  CHECK(again.has_value() && *again == *modes);
}

}  // namespace
}  // namespace thimble::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using thimble::server::check_modes;
  using thimble::server::check_query;
  using thimble::server::PlannedModel;
  if (size == 0) return 0;
  static const PlannedModel small{"small",
                                  thimble::planner::PlanSubject(thimble::server::small_config())};
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    check_modes(rest);
  } else {
    check_query(small, std::string("config=serving&") + std::string(rest));
  }
  return 0;
}
