// Aim: `init` makes a model that opens, with its tokenizer, or leaves nothing behind; `inspect`
// says what a directory lacks. Method: the commands themselves on temporary directories.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/thimble/commands.h"
#include "apps/thimble/inspection.h"
#include "arch/checkpoint.h"
#include "tests/golden/golden.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

namespace thimble::app {
namespace {

int run(std::vector<std::string> words) {
  words.insert(words.begin(), "thimble");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return run_command_line(static_cast<int>(argv.size()), argv.data(),
                          {init_command(), inspect_command()});
}

int init(const Path& out, std::vector<std::string> more = {}, std::string preset = "nano") {
  std::vector<std::string> words = {"init", "--preset", std::move(preset), "--out", out.string()};
  words.insert(words.end(), more.begin(), more.end());
  return run(std::move(words));
}

// Runs inspect --json and returns its status and document.
std::pair<int, nlohmann::json> inspect(const std::string& model) {
  ::testing::internal::CaptureStdout();
  const int status = run({"inspect", model, "--json"});
  const std::string text = ::testing::internal::GetCapturedStdout();
  return {status, nlohmann::json::parse(text, nullptr, false)};
}

size_t entries(const Path& directory) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

TEST(Init, MakesACompleteModel) {
  const base::TempDir dir;
  const Path out = dir.path() / "models" / "nano";
  ASSERT_EQ(init(out), kExitDone);
  const auto checkpoint = arch::Checkpoint::open(out);
  ASSERT_TRUE(checkpoint) << checkpoint.error().describe();
  const auto tokenizer = text::Tokenizer::open(out / "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
  const arch::Config& config = checkpoint->config();
  EXPECT_EQ(config.vocab_size, tokenizer->size());
  EXPECT_EQ(config.engram.compressed_vocab_size,
            static_cast<uint32_t>(text::build_token_map(*tokenizer)->class_count));
  EXPECT_EQ(tokenizer->find_added("<｜end▁of▁sentence｜>"), config.eos_token_id);
  EXPECT_EQ(entries(out), 5u);
  EXPECT_EQ(entries(out.parent_path()), 1u);
  EXPECT_EQ(inspect(out.string()).first, kExitDone);
}

// Equal weights have equal fingerprints, wherever they lie; no directory, no fingerprint.
TEST(Inspect, FingerprintTellsWeightsApart) {
  const base::TempDir dir;
  const auto fingerprint = [&](const char* name, const char* seed) {
    EXPECT_EQ(init(dir.path() / name, {"--seed", seed}), kExitDone);
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run({"inspect", (dir.path() / name).string(), "--json", "--fingerprint"}), kExitDone);
    const std::string text = ::testing::internal::GetCapturedStdout();
    return nlohmann::json::parse(text, nullptr, false)["fingerprint"].get<std::string>();
  };
  const std::string first = fingerprint("a", "5");
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first, fingerprint("b", "5"));
  EXPECT_NE(first, fingerprint("c", "6"));
  EXPECT_TRUE(inspect((dir.path() / "a").string()).second["fingerprint"].is_null());
  EXPECT_NE(run({"inspect", "released", "--fingerprint"}), kExitDone);
}

TEST(Init, SeedDecides) {
  const base::TempDir dir;
  const auto weights = [&](const char* name, const char* seed) {
    EXPECT_EQ(init(dir.path() / name, {"--seed", seed}), kExitDone);
    return *base::read_file(dir.path() / name / "model.safetensors");
  };
  const std::string first = weights("a", "5");
  EXPECT_EQ(first, weights("b", "5"));
  EXPECT_NE(first, weights("c", "6"));
}

TEST(Init, ReplacesOnlyAModelAndOnlyWhenTold) {
  const base::TempDir dir;
  const Path out = dir.path() / "m";
  ASSERT_TRUE(std::filesystem::create_directory(out));
  EXPECT_EQ(init(out), kExitDone);  // empty: nothing to lose
  const auto before = *base::read_file(out / "model.safetensors");
  EXPECT_EQ(init(out, {"--seed", "2"}), kExitFailed);
  EXPECT_EQ(*base::read_file(out / "model.safetensors"), before);
  EXPECT_EQ(init(out, {"--seed", "2", "--force"}), kExitDone);
  EXPECT_NE(*base::read_file(out / "model.safetensors"), before);
  ASSERT_TRUE(base::write_file_atomic(out / "thesis.tex", "years of work"));
  EXPECT_EQ(init(out, {"--force"}), kExitFailed);
  EXPECT_EQ(*base::read_file(out / "thesis.tex"), "years of work");
  EXPECT_EQ(entries(dir.path()), 1u);
}

TEST(Init, LeavesNothingBehindWhenItCannot) {
  const base::TempDir dir;
  ASSERT_TRUE(base::write_file_atomic(dir.path() / "file", ""));
  EXPECT_EQ(init(dir.path() / "file"), kExitFailed);
  EXPECT_EQ(init(dir.path() / "file" / "below"), kExitFailed);
  EXPECT_EQ(init(dir.path() / "x", {}, "/nowhere/config.json"), kExitFailed);
  EXPECT_EQ(entries(dir.path()), 1u);
}

// A model made from someone's configuration must fit the tokenizer that comes with it.
TEST(Init, TakesAConfigurationThatFitsItsTokenizer) {
  const base::TempDir dir;
  ASSERT_EQ(init(dir.path() / "nano"), kExitDone);
  const std::string config = (dir.path() / "nano" / "config.json").string();
  EXPECT_EQ(init(dir.path() / "again", {}, config), kExitDone);
  EXPECT_EQ(*base::read_file(dir.path() / "nano" / "model.safetensors"),
            *base::read_file(dir.path() / "again" / "model.safetensors"));
}

// The words init prints, and its status.
std::pair<int, std::string> init_says(const Path& out, const Path& preset) {
  ::testing::internal::CaptureStderr();
  const int status = init(out, {}, preset.string());
  return {status, ::testing::internal::GetCapturedStderr()};
}

// t1 and t3 have more ids than the tokenizer and an Engram of another token map.
TEST(Init, FillsTheTokenizerOfALargerVocabulary) {
  for (const char* name : {"t1_mini", "t3_everything"}) {
    const base::TempDir dir;
    const Path out = dir.path() / "m";
    const Path preset = golden::path(std::string(name) + "/model/config.json");
    const auto [status, said] = init_says(out, preset);
    ASSERT_EQ(status, kExitDone) << said;
    EXPECT_EQ(inspect(out.string()).first, kExitDone);
    const auto tokenizer = text::Tokenizer::open(out / "tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
    arch::Config expected = *arch::load_config(preset);
    EXPECT_EQ(tokenizer->size(), expected.vocab_size);
    const auto classes = text::build_token_map(*tokenizer)->class_count;
    EXPECT_THAT(said, ::testing::HasSubstr(fmt::format(
                          "engram_compressed_vocab_size is {} here, not 302", classes)));
    expected.engram.compressed_vocab_size = static_cast<uint32_t>(classes);
    EXPECT_EQ(*arch::load_config(out / "config.json"), expected);
    // What init wrote it takes again, without a remark.
    EXPECT_THAT(init_says(dir.path() / "again", out / "config.json").second,
                ::testing::Not(::testing::HasSubstr("engram_compressed_vocab_size")));
  }
}

TEST(Init, GoesWithoutATokenizerThatDoesNotFit) {
  const base::TempDir dir;
  const Path out = dir.path() / "t2";
  const auto [status, said] = init_says(out, golden::path("t2_text_minimal/model/config.json"));
  EXPECT_EQ(status, kExitDone);
  EXPECT_THAT(said, ::testing::HasSubstr("no tokenizer: vocab_size is 256"));
  EXPECT_EQ(entries(out), 2u);
  EXPECT_EQ(inspect(out.string()).first, kExitDone);
}

// Engram hashes by the tokenizer; the message says what would do.
TEST(Init, RefusesEngramWithoutATokenizer) {
  const base::TempDir dir;
  auto config = nlohmann::json::parse(golden::text("t1_mini/model/config.json"));
  config["text_config"]["vocab_size"] = 269;
  config["text_config"]["engram_compressed_vocab_size"] = 200;
  const Path file = dir.path() / "config.json";
  ASSERT_TRUE(base::write_file_atomic(file, config.dump()));
  const auto [status, said] = init_says(dir.path() / "m", file);
  EXPECT_EQ(status, kExitFailed);
  EXPECT_THAT(said, ::testing::HasSubstr("vocab_size is 269; with engram_layer_ids it must be at "
                                         "least 270"));
  EXPECT_EQ(entries(dir.path()), 1u);
  config["text_config"]["vocab_size"] = 270;
  ASSERT_TRUE(base::write_file_atomic(file, config.dump()));
  EXPECT_EQ(init(dir.path() / "m", {}, file.string()), kExitDone);
  EXPECT_EQ(inspect((dir.path() / "m").string()).first, kExitDone);
}

TEST(Inspect, ReleasedFigures) {
  const auto [status, json] = inspect("released");
  EXPECT_EQ(status, kExitDone);
  EXPECT_EQ(json["expected"]["tensors"], 96'085);
  EXPECT_EQ(json["expected"]["bytes"], 510'286'023'000);
  EXPECT_TRUE(json["cache"]["global_bytes_per_token"].is_number_integer());
  EXPECT_EQ(json["cache"]["global_bytes_per_token"], 890);
  EXPECT_EQ(json["cache"]["block_bytes"], 113'920);
  EXPECT_EQ(json["cache"]["sequence_bytes"]["windows"], 2'703'360);
  EXPECT_EQ(json["layers"].size(), 40u);
  EXPECT_EQ(json["layers"][24]["mode"], "reindex");
  EXPECT_EQ(json["layers"][24]["kv_source"], 20);
  EXPECT_TRUE(json["layers"][0]["kv_source"].is_null());
  EXPECT_TRUE(json["found"].is_null());
  EXPECT_EQ(json["mismatches"].size(), 0u);
}

TEST(Inspect, ListsWhatTheFilesLack) {
  const base::TempDir dir;
  std::filesystem::copy(golden::path("t3_everything/model"), dir.path());
  EXPECT_EQ(inspect(dir.path().string()).first, kExitDone);
  std::filesystem::remove(dir.path() / "model-00003-of-00003.safetensors");
  const auto [status, json] = inspect(dir.path().string());
  EXPECT_EQ(status, kExitFailed);
  EXPECT_EQ(json["mismatches"][0]["kind"], "bad file");
  EXPECT_EQ(json["mismatches"][0]["tensor"], "model-00003-of-00003.safetensors");
  EXPECT_EQ(json["mismatches"].size(), 1u);  // the shard, not each of its tensors too
  EXPECT_LT(json["found"]["tensors"], json["expected"]["tensors"]);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run({"inspect", dir.path().string()}), kExitFailed);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              ::testing::AllOf(::testing::HasSubstr("model-00003-of-00003.safetensors"),
                               ::testing::HasSubstr("\n1 mismatch\n")));
}

// The tokenizer belongs to the model where Engram hashes by it: serving would refuse the rest.
TEST(Inspect, ChecksTheTokenizerAsServingWould) {
  const base::TempDir dir;
  std::filesystem::copy(golden::path("t1_mini/model"), dir.path());
  EXPECT_EQ(inspect(dir.path().string()).first, kExitDone);
  ASSERT_TRUE(base::write_file_atomic(dir.path() / "tokenizer.json", "{\"model\": 1}"));
  const auto [broken, broken_json] = inspect(dir.path().string());
  EXPECT_EQ(broken, kExitFailed);
  EXPECT_EQ(broken_json["mismatches"][0]["tensor"], "tokenizer.json");
  std::filesystem::remove(dir.path() / "tokenizer.json");
  EXPECT_EQ(inspect(dir.path().string()).first, kExitFailed);
}

TEST(Inspect, TextNamesEveryLayerOnce) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run({"inspect", "released"}), kExitDone);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, ::testing::HasSubstr("890 B"));
  EXPECT_THAT(text, ::testing::HasSubstr("510,286,023,000"));
  EXPECT_THAT(text, ::testing::HasSubstr("  3-7      reuse    2      2     2"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("\x1b")));
}

TEST(Inspect, FailsWhereThereIsNoConfiguration) {
  const base::TempDir dir;
  EXPECT_EQ(run({"inspect", dir.path().string()}), kExitFailed);
  EXPECT_EQ(run({"inspect", "/nowhere"}), kExitFailed);
}

}  // namespace
}  // namespace thimble::app
