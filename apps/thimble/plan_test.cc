// Aim: `plan` answers from the built-in configuration, a file or a directory, as text, JSON and
// pictures, and names what makes no sense. Method: the command itself; figures that a script would
// read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/thimble/commands.h"
#include "arch/config.h"
#include "base/file.h"

namespace thimble::app {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

Outcome plan(std::vector<std::string> words) {
  words.insert(words.begin(), {"thimble", "plan"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = run_command_line(static_cast<int>(argv.size()), argv.data(), {plan_command()});
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

nlohmann::json json_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, kExitDone) << outcome.err;
  return nlohmann::json::parse(outcome.out, nullptr, false);
}

TEST(Plan, TheReleasedModel) {
  const auto json = json_of(plan({"--json"}));
  EXPECT_EQ(json["ledger"]["global_kv_bytes_per_token"], 890);
  EXPECT_EQ(json["ledger"]["checkpoint_bytes"], 510286023000);
  EXPECT_EQ(json["capacity"]["contexts"]["by_entries"], 48);
  EXPECT_EQ(json["generations"].size(), 4u);
  EXPECT_EQ(json["replay"]["asked"]["auto"]["layer_tokens"], 31810);
  const Outcome text = plan({});
  EXPECT_EQ(text.status, kExitDone);
  for (const char* piece : {"3 x (288 + 68) / 2 + 1 x (288 + 68) = 890", "510,286,023,000",
                            "95 x 4096 = 389,120", "3,514.25", "1. Ledger", "7. Replay"}) {
    EXPECT_THAT(text.out, HasSubstr(piece));
  }
}

TEST(Plan, WhatIfs) {
  const auto json = json_of(plan({"--json", "--context", "1048576", "--memory", "80GiB"}));
  EXPECT_EQ(json["capacity"]["contexts"]["by_entries"], 92);
  EXPECT_EQ(json["capacity"]["contexts"]["with_windows"], 91);
  const auto mix = json_of(plan({"--json", "--modes", "2xS,F4,3xU"}));
  EXPECT_EQ(mix["ledger"]["global_kv_bytes_per_token"], 89);
  EXPECT_THAT(mix["not_planned"].get<std::string>(), HasSubstr("has ratio 4"));
  const auto wide = json_of(plan({"--json", "--latent", "1024"}));
  EXPECT_EQ(wide["ledger"]["global_kv_bytes_per_token"], 2.5 * (576 + 68));
  const auto machine = json_of(plan({"--json", "--machine", "server", "--ram", "64GiB"}));
  EXPECT_EQ(machine["machine"]["ram_bytes"], 64ULL << 30);
  EXPECT_LT(machine["placement"]["experts_resident"], 1);
}

TEST(Plan, MeasuredHere) {
  const auto json = json_of(plan({"--json", "--this-machine"}));
  EXPECT_EQ(json["machine"]["name"], "this machine");
  EXPECT_GT(json["machine"]["cpu"]["memory_gbps"], 0);
}

TEST(Plan, FilesAndGenerations) {
  const base::TempDir dir;
  arch::Config config = arch::released_config();
  config.head_dim = 256;
  config.qk_rope_head_dim = 64;
  ASSERT_TRUE(
      base::write_file_atomic(dir.path() / "config.json", arch::to_json(config)).has_value());
  for (const Path& path : {dir.path(), dir.path() / "config.json"}) {
    const auto json = json_of(plan({"--json", "--config", path.string()}));
    EXPECT_EQ(json["ledger"]["global_kv_bytes_per_token"], 2.5 * (144 + 68));
  }
  const auto older = json_of(plan({"--json", "--config", "v4-flash"}));
  EXPECT_EQ(older["ledger"]["global_kv_bytes_per_token"], 3514.25);
  EXPECT_FALSE(older.contains("flops"));
}

TEST(Plan, Pictures) {
  const base::TempDir dir;
  const Path charts = dir.path() / "charts";
  EXPECT_EQ(plan({"--svg", charts.string()}).status, kExitDone);
  for (const char* name : {"generations", "concurrency", "attribution", "decode", "replay"}) {
    const auto svg = base::read_file(charts / (std::string(name) + ".svg"));
    ASSERT_TRUE(svg.has_value()) << name;
    EXPECT_THAT(*svg, HasSubstr("</svg>"));
  }
}

TEST(Plan, NonsenseIsNamed) {
  struct Case {
    std::vector<std::string> words;
    const char* says;
  };
  const base::TempDir dir;
  std::string zero = arch::to_json(arch::released_config());
  zero.replace(zero.find("\"num_hidden_layers\": 40"), 23, "\"num_hidden_layers\": 0 ");
  const Path file = dir.path() / "zero.json";
  ASSERT_TRUE(base::write_file_atomic(file, zero).has_value());
  const Case cases[] = {{{"--config", file.string()}, "num_hidden_layers"},
                        {{"--memory", "-40GiB"}, "is no number of bytes"},
                        {{"--context", "9223372036854775808"}, "whole number of 0 to 2^40"},
                        {{"--context", "many"}, "whole number"},
                        {{"--config", "nowhere"}, "is no file, expected"},
                        {{"--machine", "toaster"}, "there are laptop, desktop"},
                        {{"--modes", "Q"}, "expected items such as"},
                        {{"--link-gbps", "0"}, "number above 0"},
                        {{"--link-gbps", "1e-320"}, "number above 0"},
                        {{"--ram", "0"}, "expected some bytes"},
                        {{"--context", "1048577"}, "the model's maximum"},
                        {{"--modes", "F4", "--latent", "7"}, "head_dim is 7"},
                        {{"--gpu-memory", "24GiB"}, "gpu_gbps is 0"}};
  for (const Case& c : cases) {
    const Outcome outcome = plan(c.words);
    EXPECT_THAT(outcome.status, AnyOf(kExitFailed, kExitUsage)) << c.says;
    EXPECT_THAT(outcome.err, HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace thimble::app
