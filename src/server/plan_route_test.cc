// Aim: the query becomes the plan that the command line prints, or a 400 that names the field.
// Method: queries by hand, answers parsed.
#include "server/plan_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace thimble::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(PlanRoute, ReleasedByDefaultWhereNothingIsServed) {
  const auto body = plan_json({}, "");
  ASSERT_TRUE(body.has_value());
  const json plan = json::parse(*body);
  EXPECT_EQ(plan["ledger"]["global_kv_bytes_per_token"], 890);
  EXPECT_EQ(plan["ledger"]["checkpoint_bytes"], 510286023000);
  EXPECT_FALSE(plan.contains("charts"));
  EXPECT_GT(plan["fields"].size(), 10u);
  EXPECT_EQ(plan["machines"][0]["name"], "laptop");
}

TEST(PlanRoute, FieldsChangeThePlanAndChartsComeWhenAskedFor) {
  const auto body = plan_json(
      {}, "config=released&memory=80GiB&context=1048576&modes=2xS%2C+F2,U&charts=1&latent=");
  ASSERT_TRUE(body.has_value()) << body.error().message;
  const json plan = json::parse(*body);
  EXPECT_EQ(plan["modes"], "2xS, F2, U");
  EXPECT_EQ(plan["ledger"]["global_kv_bytes_per_token"], 178);
  EXPECT_EQ(plan["charts"].size(), 5u);
  EXPECT_THAT(plan["charts"]["generations"].get<std::string>(), HasSubstr("<svg"));
}

TEST(PlanRoute, TheModelThatIsServed) {
  arch::Config config = arch::released_config();
  config.index_head_dim = 64;
  const PlannedModel model{"mine", planner::PlanSubject(config)};
  const json plan = json::parse(plan_json(model, "config=serving").value());
  EXPECT_EQ(plan["source"], "mine");
  EXPECT_EQ(plan["ledger"]["global_kv_bytes_per_token"], 2.5 * (288 + 34));
}

TEST(PlanRoute, GenerationsHaveACacheAndNoMore) {
  const json plan = json::parse(plan_json({}, "config=v3.2&charts=1").value());
  EXPECT_EQ(plan["ledger"]["global_kv_bytes_per_token"], 48068);
  EXPECT_FALSE(plan.contains("flops"));
  EXPECT_EQ(plan["charts"].size(), 2u);
}

TEST(PlanRoute, NonsenseIsNamed) {
  struct Case {
    std::string query;
    const char* param;
    const char* message;
  };
  const Case cases[] = {
      {"context=9223372036854775808", "context", "2^40"},
      {"context=18446744073709551616", "context", "2^40"},
      {"memory=-5", "memory", "is no number of bytes"},
      {"memory=99999999999TiB", "memory", "is no"},
      {"contexts=0", "contexts", "whole number"},
      {"dram-gbps=nan", "dram-gbps", "number above 0"},
      {"dram-gbps=-1", "dram-gbps", "number above 0"},
      {"dram-gbps=1e-320", "dram-gbps", "number above 0"},
      {"ram=0", "ram", "expected some bytes"},
      {"colour=red", "colour", "a plan has no"},
      {"config=/etc/passwd", "config", "is not planned here"},
      {std::string(5000, 'a'), "query", "bytes long"},
      {"%ff%fe=1", "", "a plan has no"},
  };
  for (const Case& c : cases) {
    const auto body = plan_json({}, c.query);
    ASSERT_FALSE(body.has_value()) << c.query;
    EXPECT_EQ(body.error().status, 400u);
    if (*c.param != 0) {
      EXPECT_EQ(body.error().param, c.param);
    }
    EXPECT_THAT(body.error().message, HasSubstr(c.message)) << c.query;
  }
  for (const char* query :
       {"modes=X", "latent=7", "latent=99999999", "machine=toaster",
        "contexts=1048576&context=1099511627776", "snapshot-rate=1e12&ttl=1e12", "context=1048577",
        "modes=F4&latent=7", "config=v3.2&modes=S", "hit=1099511627776&new=1099511627776"}) {
    const auto body = plan_json({}, query);
    ASSERT_FALSE(body.has_value()) << query;
    EXPECT_EQ(body.error().status, 400u) << query << body.error().message;
  }
}

}  // namespace
}  // namespace thimble::server
