// Aim: a run from nothing to a served model: what `train --score` says of the held-out data is what
// the engine says of the exported model; mistakes in a run file are named. Method: two steps of a
// tiny model on associative recall, the commands in child processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <tuple>

#include "apps/thimble/testing.h"
#include "train/trainer.h"

namespace thimble::app {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json tiny_config() {
  json config = json::parse(*base::read_file(nano_model() / "config.json"));
  json& text = config["text_config"];
  text["vocab_size"] = 64;
  text["hidden_size"] = 64;
  text["engram_layer_ids"] = json::array();
  return config;
}

json run_of(const json& model) {
  const json task = {{"kind", "recall"}, {"pairs", 12}, {"keys", 40}, {"values", 16}};
  json data = task;
  data["count"] = 64;
  json held_out = task;
  held_out["count"] = 8;
  held_out["seed"] = 9;
  return {{"model", model},   {"data", {data}},     {"held_out", {held_out}}, {"steps", 2},
          {"row_tokens", 72}, {"rows_per_step", 4}, {"rows_per_piece", 2}};
}

class TrainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!train::can_train()) GTEST_SKIP() << "a build without libtorch";
  }

  Path at(const char* name) const { return directory_.path() / name; }
  void write_run(const json& run) { ASSERT_TRUE(base::write_file_atomic(at("run"), run.dump())); }

  base::TempDir directory_;
};

TEST_F(TrainCommand, TheEngineScoresWhatWasTrained) {
  write_run(run_of(tiny_config()));
  const std::string run = at("run").string();
  Child training({"train", run, "--out", at("out").string(), "--export", at("model").string()});
  ASSERT_EQ(training.wait(), 0) << training.err();
  Child scoring({"train", run, "--out", at("out").string(), "--score", "--json"});
  ASSERT_EQ(scoring.wait(), 0) << scoring.err();
  std::istringstream lines(scoring.out());
  std::map<std::string, json> trained;
  for (std::string line; std::getline(lines, line);) {
    const json form = json::parse(line);
    trained[form["form"]] = form;
  }
  EXPECT_EQ(trained.size(), 5);
  // Rounded cache rows differ where float32 sums of another order fall across a rounding border.
  const std::tuple<const char*, const char*, double> pairs[] = {
      {"served", "exact", 1e-3}, {"caches unrounded", "nokvq", 1e-5}};
  for (const auto& [form, mode, bound] : pairs) {
    Child serving({"eval", "perplexity", "--model", at("model").string(), "--run", run, "--mode",
                   mode, "--against", "exact", "--json"});
    ASSERT_EQ(serving.wait(), 0) << serving.err();
    const json served = json::parse(serving.out());
    const bool same = std::string_view(mode) == "exact";  // held against itself
    EXPECT_EQ(served["mean_kl"] == 0, same);
    EXPECT_TRUE(served["top1_agreement"] == 1 || !same);
    EXPECT_EQ(served["labels"], 96);
    EXPECT_EQ(trained[form]["labels"], 96);
    EXPECT_NEAR(served["loss"], trained[form]["loss"], bound) << mode;
  }
}

// A run file that makes no sense is an error that names the key, never a crash.
TEST_F(TrainCommand, NamesWhatIsWrong) {
  const auto said = [&](const char* at_key, const json& value) {
    json run = run_of(tiny_config());
    run[json::json_pointer(at_key)] = value;
    write_run(run);
    Child training({"train", at("run").string(), "--out", at("out").string()});
    EXPECT_EQ(training.wait(), 1) << at_key;
    return training.err();
  };
  EXPECT_THAT(said("/data/0/pairs", 41), HasSubstr("data[0]: expected queries <= pairs <= keys"));
  EXPECT_THAT(said("/data/0/count", -1), HasSubstr("count is -1"));
  EXPECT_THAT(said("/data", json::object()), HasSubstr("data is {}; expected a list"));
  EXPECT_THAT(said("/model", 5), HasSubstr("model is 5"));
  EXPECT_THAT(said("/steps", -1), HasSubstr("steps is -1"));
  EXPECT_THAT(said("/shards", 1000), HasSubstr("shards is 1000"));
  EXPECT_THAT(said("/replay_share", "x"), HasSubstr("replay_share is \"x\""));
  EXPECT_THAT(said("/quantise_from", 7), HasSubstr("quantise_from is 7"));
  EXPECT_THAT(said("/index", {{"explore", -1}}), HasSubstr("index.explore is -1"));
  EXPECT_THAT(said("/balance_weight", -1), HasSubstr("balance_weight is -1"));
  EXPECT_THAT(said("/data/0", {{"kind", "jsonl"}}), HasSubstr("data[0]: path is missing"));
  EXPECT_THAT(said("/tokenizer", (nano_model() / "tokenizer.json").string()),
              HasSubstr("ids; vocab_size is 64"));
  EXPECT_THAT(said("/optimizer/clip", -1), HasSubstr("optimizer.clip is -1"));
  EXPECT_THAT(said("/optimizer/warmup", 0.9), HasSubstr("are shares of the run in this order"));
  json run = run_of(tiny_config());
  write_run(run);
  Child nothing({"train", at("run").string(), "--out", at("none").string(), "--score"});
  EXPECT_EQ(nothing.wait(), 1);
  EXPECT_THAT(nothing.err(), HasSubstr("nothing was trained there"));
  EXPECT_FALSE(std::filesystem::exists(at("none")));
  run.erase("held_out");
  write_run(run);
  Child scoring({"train", at("run").string(), "--out", at("out").string(), "--score"});
  EXPECT_EQ(scoring.wait(), 1);
  EXPECT_THAT(scoring.err(), HasSubstr("held_out is missing"));
}

// Ctrl-C keeps the state and leaves what --export names alone.
TEST_F(TrainCommand, ExportsNothingWhenItIsInterrupted) {
  json run = run_of(tiny_config());
  run["steps"] = 1'000'000;
  run["save_every"] = 1;
  write_run(run);
  Child training(
      {"train", at("run").string(), "--out", at("out").string(), "--export", at("model").string()});
  for (int i = 0; i < 1000 && !std::filesystem::exists(at("out") / "state.safetensors"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  training.signal(SIGINT);
  EXPECT_EQ(training.wait(), 0) << training.err();
  EXPECT_THAT(training.out(), HasSubstr("nothing is exported"));
  EXPECT_FALSE(std::filesystem::exists(at("model")));
}

// A state goes on with what it was trained on, and with nothing that only has the same size.
TEST_F(TrainCommand, RefusesOtherDataThanItBeganWith) {
  json run = run_of(tiny_config());
  run["eval_every"] = 0;
  write_run(run);
  const std::vector<std::string> words = {"train", at("run").string(), "--out", at("out").string()};
  Child first(words);
  ASSERT_EQ(first.wait(), 0) << first.err();
  run["steps"] = 3;
  for (const auto& [key, value] : {std::pair("/data/0/count", 1), std::pair("/data/0/seed", 2),
                                   std::pair("/seed", 2), std::pair("/row_tokens", 80)}) {
    json other = run;
    other[json::json_pointer(key)] = value;
    write_run(other);
    Child second(words);
    EXPECT_EQ(second.wait(), 1) << key;
    EXPECT_THAT(second.err(), HasSubstr("was trained on other rows")) << key;
  }
  write_run(run);
  Child third(words);
  EXPECT_EQ(third.wait(), 0) << third.err();
  EXPECT_THAT(third.err(), HasSubstr("resumed at step 2"));
}

}  // namespace
}  // namespace thimble::app
