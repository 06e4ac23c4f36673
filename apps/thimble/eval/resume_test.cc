// Aim: `eval resume` finds exact routes exact and bounded ones not, in figures that programs can
// read, on a model and on a server. Method: the command in child processes on a made model of
// random weights, a model without a tokenizer, and our own server; each kind of nonsense once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "apps/thimble/commands.h"
#include "apps/thimble/testing.h"
#include "tests/golden/golden.h"

namespace thimble::app {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<std::string> resume(std::vector<std::string> words) {
  words.insert(words.begin(), {"eval", "resume"});
  return words;
}

json run_json(std::vector<std::string> words) {
  words.emplace_back("--json");
  Child child(resume(std::move(words)));
  EXPECT_EQ(child.wait(), kExitDone) << child.err();
  return json::parse(child.out(), nullptr, false);
}

// The made model has 12 layers with windows of 64: from 756 rows on nothing differs.
TEST(EvalResume, RoutesAreAsFarFromColdAsPromised) {
  const base::TempDir dir;
  const Path svg = dir.path() / "chart";
  const json out =
      run_json({"--model", nano_model().string(), "--threads", "1", "--tokens", "3", "--cuts",
                "1025+1,900+33", "--depths", "128,1024", "--svg", svg.string()});
  ASSERT_TRUE(out.is_object());
  EXPECT_EQ(out["window"], 64);
  EXPECT_EQ(out["exact_depth"], 756);
  EXPECT_EQ(out["exact_routes_hold"], true);
  for (const char* route : {"snapshot", "exact", "depth_1024"}) {
    const json& figures = out["routes"][route];
    EXPECT_EQ(figures["max_abs_logit_diff"], 0) << route;
    EXPECT_EQ(figures["mean_kl"], 0) << route;
    EXPECT_EQ(figures["top1_agreement"], 1) << route;
    EXPECT_EQ(figures["bit_equal"], true) << route;
    EXPECT_TRUE(figures["first_greedy_difference_distance"].is_null()) << route;
    EXPECT_EQ(figures["rows"], 2 * 2 * 4) << route;
  }
  for (const char* route : {"auto", "bounded", "depth_128"}) {
    const json& figures = out["routes"][route];
    EXPECT_GT(figures["max_abs_logit_diff"], 0) << route;
    EXPECT_GT(figures["max_abs_logit_diff"], figures["mean_abs_logit_diff"]) << route;
    EXPECT_GT(figures["mean_kl"], 0) << route;
  }
  EXPECT_EQ(out["routes"]["snapshot"]["replayed_tokens"], 0);
  EXPECT_EQ(out["routes"]["bounded"]["replayed_tokens"], 4 * 64);
  EXPECT_EQ(out["cases"].size(), 4u);
  // Distances of 1 + 0..3 tokens and 33 + 0..3.
  const json& bins = out["routes"]["bounded"]["by_distance"];
  ASSERT_EQ(bins.size(), 4u);
  EXPECT_EQ(bins[1]["from"], 2);
  EXPECT_EQ(bins[1]["rows"], 4);
  EXPECT_EQ(bins[3]["from"], 32);
  EXPECT_EQ(bins[3]["rows"], 8);
  const std::string chart = base::read_file(svg).value_or("");
  EXPECT_THAT(chart, HasSubstr("Error budget of bounded replay"));
  EXPECT_THAT(chart, HasSubstr("depth_128"));
}

TEST(EvalResume, TextOfOnesOwnAsATable) {
  const base::TempDir dir;
  const Path text = dir.path() / "words";
  std::string words;
  for (int i = 0; i < 60; ++i) words += "one more ";
  ASSERT_TRUE(base::write_file_atomic(text, words));
  Child child(resume({"--model", nano_model().string(), "--threads", "1", "--tokens", "2", "--text",
                      text.string(), "--cuts", "65+2"}));
  EXPECT_EQ(child.wait(), kExitDone) << child.err();
  EXPECT_THAT(child.out(), HasSubstr("1 text of"));
  EXPECT_THAT(child.out(), HasSubstr("every bit is the cold run's"));
}

TEST(EvalResume, AModelWithoutATokenizerReadsRandomIds) {
  const json out = run_json({"--model", golden::path("t2_text_minimal/model").string(), "--threads",
                             "1", "--tokens", "2", "--cuts", "40+3"});
  ASSERT_TRUE(out.is_object());
  EXPECT_EQ(out["texts"][0]["name"], "random ids");
  EXPECT_THAT(out["note"], HasSubstr("no tokenizer"));
  EXPECT_EQ(out["exact_routes_hold"], true);
}

TEST(EvalResume, AskingOurOwnServer) {
  Child server({"serve", "--model", nano_model().string(), "--threads", "1", "--port", "0"});
  ASSERT_TRUE(server.wait_for_output(1)) << server.err();
  const std::string said = server.out();
  const size_t url = said.find("http://");
  ASSERT_NE(url, std::string::npos) << said;
  const json out = run_json(
      {"--url", said.substr(url, said.find('\n', url) - url), "--tokens", "4", "--idle", "0"});
  ASSERT_TRUE(out.is_object());
  for (const char* run : {"repeated", "idle"}) {
    const json& figures = out["runs"][run];
    EXPECT_EQ(figures["compared"], 2) << run;
    EXPECT_GT(figures["compared_tokens"], 0) << run;
    EXPECT_GT(figures["cached_tokens"], 3000) << run;
    EXPECT_LT(figures["cached_tokens"], figures["prompt_tokens"]) << run;
  }
  EXPECT_GT(out["runs"]["extended"]["cached_tokens"], 2000);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

TEST(EvalResume, NonsenseIsRefusedBeforeAnythingRuns) {
  const std::vector<std::vector<std::string>> lines = {{},
                                                       {"--model", "x", "--cuts", "3"},
                                                       {"--model", "x", "--cuts", "3+0"},
                                                       {"--model", "x", "--cuts", "3+1+1"},
                                                       {"--model", "x", "--depths", "12,x"},
                                                       {"--model", "x", "--tokens", "0"},
                                                       {"--model", "x", "--api-key", "k"},
                                                       {"--url", "https://localhost"},
                                                       {"--url", "localhost"},
                                                       {"--url", "http://localhost", "--svg", "x"}};
  for (const auto& line : lines) {
    Child child(resume(line));
    EXPECT_EQ(child.wait(), kExitUsage) << child.out();
    EXPECT_THAT(child.err(), HasSubstr("thimble eval resume:"));
  }
  Child shallow(resume({"--model", nano_model().string(), "--depths", "63"}));
  EXPECT_EQ(shallow.wait(), kExitFailed);
  EXPECT_THAT(shallow.err(), HasSubstr("depth 63 is below the model's window of 64"));
}

TEST(Eval, AGroupAloneShowsWhatItHas) {
  Child alone({"eval"});
  EXPECT_EQ(alone.wait(), kExitUsage);
  EXPECT_THAT(alone.err(), HasSubstr("Compare answers after a cached prefix"));
  Child help({"eval", "--help"});
  EXPECT_EQ(help.wait(), kExitDone);
  EXPECT_THAT(help.out(), HasSubstr("resume"));
  Child below({"eval", "resume", "--help"});
  EXPECT_EQ(below.wait(), kExitDone);
  EXPECT_THAT(below.out(), HasSubstr("--cuts"));
}

}  // namespace
}  // namespace thimble::app
