// Aim: flags are read exactly, and nonsense gives status 2 before anything runs. Method: a command
// that records what it was given, driven by command lines.
#include "apps/thimble/options.h"

#include <gtest/gtest.h>

#include <memory>

#include "apps/thimble/commands.h"

namespace thimble::app {
namespace {

struct Given {
  std::string model, mode = "fast";
  Path out;
  uint32_t small = 7;
  uint64_t big = 1;
  double real = 0.5;
  std::optional<uint32_t> maybe;
  std::optional<double> maybe_real;
  std::optional<std::string> prompt, chat;
  bool json = false;
  int runs = 0;
};

// Parses `words` after "thimble probe" and returns the exit status.
int run(Given& given, std::vector<std::string> words) {
  const Command probe = {.name = "probe",
                         .summary = "Records its flags",
                         .details = "",
                         .examples = {},
                         .describe =
                             [&given](Options& options) {
                               options.add("MODEL", given.model, "a positional", Need::kRequired);
                               options.choice("--mode", given.mode, {"fast", "exact"}, "a choice");
                               options.add("--out", given.out, "a path");
                               options.add("-s,--small", given.small, "32 bits");
                               options.add("--big", given.big, "64 bits");
                               options.add("--real", given.real, "a real number");
                               options.add("--maybe", given.maybe, "may be absent");
                               options.add("--maybe-real", given.maybe_real, "may be absent");
                               options.add("--prompt", given.prompt, "one of two");
                               options.add("--chat", given.chat, "one of two");
                               options.exclusive({"--prompt", "--chat"});
                               options.flag("--json", given.json, "a flag");
                             },
                         .check = [&given]() -> Result<void> {
                           return check_range("--small", given.small, 1, 4'294'967'295);
                         },
                         .run = [&given]() -> Result<int> {
                           ++given.runs;
                           if (given.model == "broken")
                             return fail(ErrorCode::kCorrupt, "it is broken");
                           return kExitDone;
                         }};
  words.insert(words.begin(), {"thimble", "probe"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return run_command_line(static_cast<int>(argv.size()), argv.data(), {probe});
}

TEST(Options, ReadsEveryKind) {
  Given given;
  EXPECT_EQ(run(given, {"m", "--mode", "exact", "--out", "a/b", "-s", "4294967295", "--big",
                        "18446744073709551615", "--real", "-1e-3", "--maybe", "0", "--maybe-real",
                        "2", "--chat", "hi there", "--json"}),
            kExitDone);
  EXPECT_EQ(given.runs, 1);
  EXPECT_EQ(given.model, "m");
  EXPECT_EQ(given.mode, "exact");
  EXPECT_EQ(given.out, "a/b");
  EXPECT_EQ(given.small, 4'294'967'295u);
  EXPECT_EQ(given.big, 18'446'744'073'709'551'615u);
  EXPECT_EQ(given.real, -1e-3);
  EXPECT_EQ(given.maybe, 0u);
  EXPECT_EQ(given.maybe_real, 2.0);
  EXPECT_EQ(given.chat, "hi there");
  EXPECT_FALSE(given.prompt);
  EXPECT_TRUE(given.json);
}

TEST(Options, KeepsDefaults) {
  Given given;
  EXPECT_EQ(run(given, {"m"}), kExitDone);
  EXPECT_EQ(given.mode, "fast");
  EXPECT_EQ(given.small, 7u);
  EXPECT_FALSE(given.maybe);
}

TEST(Options, RefusesNonsenseBeforeRunning) {
  const std::vector<std::vector<std::string>> lines = {{},
                                                       {"m", "--mode", "slow"},
                                                       {"m", "--small", "-1"},
                                                       {"m", "--small", "0"},
                                                       {"m", "--small", "4294967296"},
                                                       {"m", "--big", "18446744073709551616"},
                                                       {"m", "--big", "1.5"},
                                                       {"m", "--big", "12x"},
                                                       {"m", "--real", "wide"},
                                                       {"m", "--real", "nan"},
                                                       {"m", "--prompt", "a", "--chat", "b"},
                                                       {"m", "--unknown"},
                                                       {"m", "another"},
                                                       {"m", "--out"}};
  for (const auto& line : lines) {
    Given given;
    EXPECT_EQ(run(given, line), kExitUsage) << (line.empty() ? "" : line.back());
    EXPECT_EQ(given.runs, 0);
  }
}

// With a model that is not there: nothing but the flags is looked at.
TEST(Options, CommandsJudgeTheirFlagsFirst) {
  const std::vector<std::vector<std::string>> lines = {
      {"serve", "--port", "65536"},
      {"serve", "--queue", "0"},
      {"serve", "--connections", "0"},
      {"serve", "--threads", "4097"},
      {"serve", "--effort", "0"},
      {"serve", "--max-tokens-default", "0"},
      {"serve", "--mode", "slow"},
      {"logits", "--ids", "i", "--out", "o", "--chunk", "0"},
      {"logits", "--ids", "i", "--out", "o", "--mode", "official"},
      {"logits", "--ids", "i", "--out", "o", "--impl", "reference", "--mode", "fast"},
      {"logits", "--ids", "i", "--out", "o", "--threads", "4097"},
      {"generate", "--chat", "x", "--temperature", "3"},
      {"chat", "--max-tokens", "0"}};
  for (std::vector<std::string> line : lines) {
    const std::string shown = line[0] + " " + line[line.size() - 2] + " " + line.back();
    line.insert(line.begin(), "thimble");
    line.insert(line.end(), {"--model", "/no/where"});
    std::vector<char*> argv;
    for (std::string& word : line) argv.push_back(word.data());
    const auto status = [&] {
      return run_command_line(
          static_cast<int>(argv.size()), argv.data(),
          {serve_command(), logits_command(), generate_command(), chat_command()});
    };
    EXPECT_EQ(status(), kExitUsage) << shown;
  }
}

TEST(Options, ErrorsAndHelpHaveTheirStatus) {
  Given given;
  EXPECT_EQ(run(given, {"broken"}), kExitFailed);
  EXPECT_EQ(run(given, {"--help"}), kExitDone);
  std::string thimble = "thimble", unknown = "frobnicate";
  char* argv[] = {thimble.data(), unknown.data()};
  EXPECT_EQ(run_command_line(2, argv, {inspect_command()}), kExitUsage);
  EXPECT_EQ(run_command_line(1, argv, {inspect_command()}), kExitUsage);
}

}  // namespace
}  // namespace thimble::app
