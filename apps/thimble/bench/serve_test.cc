// Aim: the load measurement answers every request and says what it measured. Method: the command on
// a tiny model, few tokens; no figure is judged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/thimble/testing.h"

namespace thimble::app {
namespace {

TEST(BenchServe, MeasuresBatchesLatencyAndOpenStreams) {
  Child bench({"bench", "serve", "--model", nano_model().string(), "--tokens", "4", "--rounds", "1",
               "--prompt-tokens", "5", "--long-prompt", "600", "--open", "40", "--json"});
  ASSERT_EQ(bench.wait(), 0) << bench.err();
  std::istringstream lines(bench.out());
  std::vector<std::string> measures;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    measures.push_back(json["measure"]);
    EXPECT_GT(json.value("server_tokens_per_second", 1.0), 0);
    EXPECT_EQ(json.value("long_prompt", 600), 600);
    EXPECT_EQ(json.value("streams", 40), 40);
  }
  EXPECT_THAT(measures,
              testing::ElementsAre("throughput", "throughput", "throughput", "latency", "open"));
}

}  // namespace
}  // namespace thimble::app
