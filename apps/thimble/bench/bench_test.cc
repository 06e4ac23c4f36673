// Aim: the measuring commands say what they measured in lines that scripts can read, and refuse
// what would measure nothing. Method: each on as little as it takes; no time is judged, only what
// must hold whatever the times are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/thimble/testing.h"
#include "kernels/table.h"

namespace thimble::app {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Of `thimble bench`.
std::vector<json> lines_of(std::vector<std::string> words) {
  words.insert(words.begin(), "bench");
  words.insert(words.end(), {"--threads", "1", "--json"});
  Child bench(words);
  EXPECT_EQ(bench.wait(), 0) << bench.err();
  std::istringstream out(bench.out());
  std::vector<json> lines;
  for (std::string line; std::getline(out, line);) lines.push_back(json::parse(line));
  return lines;
}

// 64 heads of which 32 pairs turn: six operations a pair, eight bytes a value.
TEST(BenchKernels, CountsWhatItMeasures) {
  const std::string isa = kernels::name(kernels::kernels());
  const auto lines = lines_of({"kernels", "--op", "rope", "--isa", isa});
  ASSERT_EQ(lines.size(), 2u);
  const double rows[] = {1, 512};
  for (size_t i = 0; i < 2; ++i) {
    const json& line = lines[i];
    EXPECT_EQ(line["op"], "rope");
    EXPECT_EQ(line["isa"], isa);
    EXPECT_EQ(line["threads"], 1);
    EXPECT_EQ(line["n"], rows[i]);
    const double us = line["us"];
    EXPECT_GT(us, 0);
    EXPECT_NEAR(line["gflops"].get<double>() * us / (1e-3 * 6 * rows[i] * 64 * 32), 1, 1e-9);
    EXPECT_NEAR(line["gbps"].get<double>() * us / (1e-3 * 8 * rows[i] * 64 * 64), 1, 1e-9);
    EXPECT_GT(line["roof_share"], 0);
  }
}

TEST(BenchGenerate, MeasuresEveryInstructionSet) {
  const std::vector<std::string> words = {"generate", "--model",  nano_model().string(),
                                          "--tokens", "4",        "--prompt-tokens",
                                          "5",        "--rounds", "1"};
  const auto lines = lines_of(words);
  ASSERT_EQ(lines.size(), kernels::runnable().size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["isa"], std::string(kernels::name(*kernels::runnable()[i])));
    EXPECT_EQ(lines[i]["prompt_tokens"], 5);
    EXPECT_EQ(lines[i]["tokens"], 4);
    EXPECT_GT(lines[i]["prefill_tokens_per_second"], 0);
    EXPECT_GT(lines[i]["decode_tokens_per_second"], 0);
  }
  auto one = words;
  one.insert(one.end(), {"--isa", "scalar"});
  const auto scalar = lines_of(one);
  ASSERT_EQ(scalar.size(), 1u);
  EXPECT_EQ(scalar[0]["isa"], "scalar");
}

TEST(BenchLayer, SetsTheBytesAgainstMemory) {
  const std::string isa = kernels::name(kernels::kernels());
  const auto lines = lines_of({"layer", "--model", nano_model().string(), "--isa", isa});
  ASSERT_FALSE(lines.empty());
  for (const json& line : lines) {
    EXPECT_EQ(line["isa"], isa);
    EXPECT_GT(line["prefill_ms_per_token"], 0);
    const double bytes = line["bytes"];
    EXPECT_GT(bytes, 10'000);
    const double gbps = line["gbps"];
    EXPECT_NEAR(gbps * line["decode_ms"].get<double>() / (1e-6 * bytes), 1, 1e-9);
    EXPECT_NEAR(line["roof_share"].get<double>() * line["dram_gbps"].get<double>() / gbps, 1, 1e-9);
  }
}

TEST(Bench, AnInstructionSetThatDoesNotRunHereIsRefused) {
  const std::string model = nano_model().string();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"bench", "kernels"},
                                                {"bench", "generate", "--model", model},
                                                {"bench", "layer", "--model", model}}) {
    auto all = words;
    all.insert(all.end(), {"--isa", "unheard-of"});
    Child bench(all);
    EXPECT_EQ(bench.wait(), 2) << words[1];
    EXPECT_EQ(bench.out(), "");
    EXPECT_THAT(bench.err(), HasSubstr("--isa is unheard-of; this CPU runs:"));
    EXPECT_THAT(bench.err(), HasSubstr(" scalar"));
  }
}

TEST(Bench, AComparisonIsNoJson) {
  Child bench({"bench", "kernels", "--compare", "a", "b", "--json"});
  EXPECT_EQ(bench.wait(), 2);
  EXPECT_THAT(bench.err(), HasSubstr("--json"));
}

}  // namespace
}  // namespace thimble::app
