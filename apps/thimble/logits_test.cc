// Aim: `logits` writes all rows, whatever the route, and says when a flag has no effect. Method:
// the command itself on the smallest golden model.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/thimble/commands.h"
#include "tests/golden/golden.h"

namespace thimble::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kTokens = 20;

struct Said {
  int status = 0;
  std::string text;
};

// Runs the command over kTokens ids; its rows go to `out`.
Said run_logits_command(const Path& out, std::vector<std::string> more) {
  const base::TempDir dir;
  std::string ids;
  for (uint64_t id = 3; id < 3 + kTokens; ++id) ids += fmt::format("{} ", id);
  EXPECT_TRUE(base::write_file_atomic(dir.path() / "ids", ids));
  std::vector<std::string> words = {"thimble", "logits", "--mode", "nokvq", "--threads", "1"};
  const std::pair<const char*, Path> files[] = {{"--model", golden::path("t2_text_minimal/model")},
                                                {"--ids", dir.path() / "ids"},
                                                {"--out", out}};
  for (const auto& [flag, path] : files) words.insert(words.end(), {flag, path.string()});
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStderr();
  const int status =
      run_command_line(static_cast<int>(argv.size()), argv.data(), {logits_command()});
  std::string said = ::testing::internal::GetCapturedStderr();
  return {status, said};
}

// The same where it must work; what it said.
std::string logits(const Path& out, std::vector<std::string> more) {
  Said said = run_logits_command(out, std::move(more));
  EXPECT_EQ(said.status, kExitDone) << said.text;
  return said.text;
}

TEST(Logits, SameRowsHoweverCut) {
  const base::TempDir dir;
  const auto rows = [&](std::vector<std::string> more) {
    const Path out = dir.path() / "out.safetensors";
    logits(out, std::move(more));
    return *base::read_file(out);
  };
  const std::string whole = rows({});
  EXPECT_EQ(arch::SafetensorsFile::open(dir.path() / "out.safetensors")->get("logits")->shape,
            (std::vector<uint64_t>{kTokens, 256}));
  EXPECT_EQ(rows({"--chunk", "3", "--decode-from", "11"}), whole);
}

constexpr uint32_t kWindow = 8;

// Exact, a hit changes no byte of the file, decisions included; bounded, rows of the last window
// are there and what the first run wrote below the hit stays.
TEST(Logits, RowsAfterAHitAreThoseOfThePolicy) {
  const base::TempDir dir;
  const Path out = dir.path() / "out.safetensors";
  const auto rows = [&](std::vector<std::string> more) {
    logits(out, std::move(more));
    return *base::read_file(out);
  };
  const std::string whole = rows({});
  EXPECT_EQ(rows({"--replay", "auto"}), whole);
  for (const char* hit : {"1", "7", "8", "9", "19"}) {
    EXPECT_EQ(rows({"--hit", hit, "--replay", "exact"}), whole) << hit;
    EXPECT_EQ(rows({"--hit", hit, "--replay", "exact", "--chunk", "2"}), whole) << hit;
  }
  EXPECT_EQ(rows({"--hit", "5", "--replay", "exact", "--decode-from", "9"}), whole);
  // A replay from 0 is the cold run.
  EXPECT_EQ(rows({"--replay", "bounded"}), whole);
  EXPECT_EQ(rows({"--hit", "8", "--replay", "bounded"}), whole);
  for (const uint64_t hit : {uint64_t{kWindow + 1}, uint64_t{kWindow + 2}}) {
    rows({"--hit", std::to_string(hit), "--replay", "bounded"});
    const auto file = arch::SafetensorsFile::open(out);
    const auto tensor = *file->get("logits");
    const auto values = tensor.as<float>();
    for (uint64_t row = 0; row < kTokens; ++row) {
      const bool computed = row < hit || row >= kTokens - kWindow;
      EXPECT_EQ(std::isnan(values[row * tensor.shape[1]]), !computed) << "row " << row;
    }
  }
}

TEST(Logits, RefusesHitsThatMakeNoSense) {
  const base::TempDir dir;
  const auto status = [&](std::vector<std::string> more) {
    return run_logits_command(dir.path() / "out", std::move(more)).status;
  };
  EXPECT_EQ(status({"--hit", "20"}), kExitFailed);  // nothing left to run
  EXPECT_EQ(status({"--replay", "fast"}), kExitUsage);
  EXPECT_EQ(status({"--hit", "3", "--impl", "reference"}), kExitUsage);
  EXPECT_EQ(status({"--hit", "19"}), kExitDone);
}

// The published slip is one of steps of one token; who asks for it without any hears of it.
TEST(Logits, SaysThatACompatFlagHasNoEffect) {
  const base::TempDir dir;
  const Path out = dir.path() / "out.safetensors";
  const std::vector<std::string> stale = {"--compat", "stale-index-keys"};
  const auto said = [&](std::vector<std::string> more) {
    more.insert(more.end(), stale.begin(), stale.end());
    return logits(out, std::move(more));
  };
  const char* const note = "note: --compat stale-index-keys";
  EXPECT_THAT(said({}), HasSubstr(note));
  EXPECT_THAT(said({"--impl", "reference"}), HasSubstr(note));
  EXPECT_THAT(said({"--decode-from", "20"}), HasSubstr(note));  // beyond the last position
  EXPECT_THAT(said({"--decode-from", "19"}), Not(HasSubstr(note)));
  EXPECT_THAT(said({"--impl", "reference", "--decode-from", "9"}), Not(HasSubstr(note)));
  EXPECT_THAT(said({"--chunk", "1"}), Not(HasSubstr(note)));
  EXPECT_THAT(logits(out, {}), Not(HasSubstr(note)));
}

TEST(Logits, SaysThatDecodeFromIsBeyondTheIds) {
  const base::TempDir dir;
  const Path out = dir.path() / "out";
  EXPECT_THAT(logits(out, {"--decode-from", "20"}), HasSubstr("note: --decode-from 20 has no"));
  EXPECT_THAT(logits(out, {"--decode-from", "19"}), Not(HasSubstr("note: --decode-from")));
}

TEST(Logits, RefusesADirectoryAsOutput) {
  const base::TempDir dir;
  const Said said = run_logits_command(dir.path(), {});
  EXPECT_EQ(said.status, kExitFailed);
  EXPECT_THAT(said.text, HasSubstr(dir.path().string() + " is a directory"));
}

}  // namespace
}  // namespace thimble::app
