// Aim: `generate` writes the answer and nothing else to standard output, the same for the same
// seed, and ends in good order whatever happens. Method: the command in child processes on a made
// model, compared with the engine called directly.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>

#include "apps/thimble/testing.h"
#include "engine/engine.h"
#include "engine/text_stream.h"
#include "text/chat_format.h"

namespace thimble::app {
namespace {

using testing::HasSubstr;

std::vector<std::string> generate(std::vector<std::string> words) {
  std::vector<std::string> all = {"generate", "--model", nano_model().string(), "--threads", "1"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

class Reader : public engine::GenerationSink {
 public:
  explicit Reader(engine::TextStream stream) : stream_(std::move(stream)) {}
  Next on_token(const engine::GeneratedToken& token) override {
    text_ += stream_.push(token.token).content;
    return Next::kContinue;
  }
  void on_end(const engine::GenerationEnd&) override {
    const std::lock_guard lock(mutex_);
    text_ += stream_.finish().content;
    over_ = true;
    changed_.notify_all();
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
    return text_;
  }

 private:
  engine::TextStream stream_;
  std::string text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
};

// The answer of an engine of our own; `make` turns its tokens and tokenizer into a prompt.
template <class Make>
std::string expected(uint64_t seed, uint32_t max_tokens, bool chat, Make make) {
  engine::EngineOptions options;
  options.model_dir = nano_model();
  options.threads = 1;
  const auto engine = engine::Engine::open(options);
  EXPECT_TRUE(engine.has_value());
  const text::SpecialTokens& tokens = *(*engine)->chat_tokens();
  engine::GenerationRequest request;
  request.prompt = make(tokens, *(*engine)->tokenizer());
  request.max_tokens = max_tokens;
  request.sampling.seed = seed;
  request.sampling.top_p = 0.95F;
  request.stop_tokens = {tokens.eos};
  engine::TextStreamOptions reading;
  if (chat) reading.think_close = tokens.think_close;
  const auto reader =
      std::make_shared<Reader>(engine::TextStream(*(*engine)->tokenizer(), reading));
  EXPECT_TRUE((*engine)->submit(request, reader).has_value());
  return reader->wait();
}

TEST(Generate, ChatGivesTheAnswerAndNothingElse) {
  const std::string want =
      expected(5, 30, true, [](const text::SpecialTokens& t, const text::Tokenizer& tokenizer) {
        std::vector<int32_t> ids = {t.bos, t.user};
        for (const int32_t id : tokenizer.encode("Hi.", text::AddedTokens::kPlain)) {
          ids.push_back(id);
        }
        ids.push_back(t.assistant);
        ids.push_back(t.think_close);
        return ids;
      });
  Child child(generate({"--chat", "Hi.", "--max-tokens", "30", "--seed", "5"}));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(child.out(), want);
  EXPECT_EQ(child.err(), "");
}

TEST(Generate, PromptIsContinuedAfterBos) {
  const std::string want =
      expected(0, 20, false, [](const text::SpecialTokens& t, const text::Tokenizer& tokenizer) {
        std::vector<int32_t> ids = tokenizer.encode("a<｜User｜>b", text::AddedTokens::kMatch);
        ids.insert(ids.begin(), t.bos);
        return ids;
      });
  for (const std::string bos : {"", "<｜begin▁of▁sentence｜>"}) {
    Child child(generate({"--prompt", bos + "a<｜User｜>b", "--max-tokens", "20"}));
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(child.out(), want);
  }
}

TEST(Generate, APromptMayBeAnyBytes) {
  Child child(generate({"--prompt", "\xFF\xFE", "--max-tokens", "4", "--verbose"}));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_THAT(child.err(), HasSubstr("3 prompt tokens in"));
}

TEST(Generate, TheSeedDecides) {
  const auto run = [](const char* seed) {
    Child child(generate({"--chat", "x", "--max-tokens", "20", "--seed", seed}));
    EXPECT_EQ(child.wait(), 0);
    return child.out();
  };
  const std::string first = run("1");
  EXPECT_EQ(run("1"), first);
  EXPECT_NE(run("2"), first);
}

// Random weights never write </think>: all of it is reasoning, and the answer is empty.
TEST(Generate, ReasoningGoesToStandardError) {
  Child child(
      generate({"--chat", "x", "--max-tokens", "9", "--effort", "low", "--system", "Be brief."}));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(child.out(), "");
  EXPECT_GT(child.err().size(), 5u);
}

TEST(Generate, VerboseSaysWhatItTook) {
  Child child(generate({"--chat", "x", "--max-tokens", "9", "--verbose"}));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_THAT(child.err(), HasSubstr("bytes a token"));
  EXPECT_THAT(child.err(), HasSubstr("5 prompt tokens in"));
  EXPECT_THAT(child.err(), HasSubstr("9 generated in"));
}

TEST(Generate, RefusesNonsense) {
  const auto refused = [](std::vector<std::string> words, int status, const std::string& why) {
    Child child(std::move(words));
    EXPECT_EQ(child.wait(), status);
    EXPECT_EQ(child.out(), "");
    EXPECT_THAT(child.err(), HasSubstr(why));
  };
  refused(generate({}), 2, "--prompt");
  refused(generate({"--prompt", "a", "--chat", "b"}), 2, "--chat");
  refused(generate({"--chat", "b", "--mode", "slow"}), 2, "slow");
  refused(generate({"--prompt", "a", "--system", "b"}), 2, "they go with --chat");
  refused(generate({"--chat", "a", "--effort", "101"}), 2, "--effort");
  refused(generate({"--chat", "a", "--temperature", "9"}), 2, "temperature is 9");
  refused(generate({"--chat", "a", "--top-p", "0"}), 2, "top_p is 0");
  refused(generate({"--chat", "a", "--max-tokens", "0"}), 2, "--max-tokens is 0");
  refused({"generate", "--model", "/no/where", "--chat", "a", "--threads", "5000"}, 2,
          "--threads is 5000");
  refused(generate({"--chat", "a\xFF"}), 2, "--chat is not valid UTF-8 (byte 2 of 2)");
  refused(generate({"--chat", "a", "--system", "\xC3"}), 2, "--system is not valid UTF-8");
  // Before the model is looked at.
  refused({"generate", "--model", "/no/where", "--chat", "a", "--temperature", "9"}, 2,
          "temperature is 9");
  refused({"chat", "--model", "/no/where", "--effort", "x"}, 2, "--effort");
  refused({"chat", "--model", "/no/where", "--min-p", "2"}, 2, "min_p is 2");
  refused(generate({"--chat", "a", "--context", "20", "--max-tokens", "20"}), 1,
          "the context holds 20");
  refused(generate({"--chat", "a long message", "--context", "10"}), 1, "no room for an answer");
  refused({"generate", "--model", "/no/where", "--chat", "a"}, 1, "/no/where");
}

TEST(Generate, InterruptEndsTheAnswerInGoodOrder) {
  Child child(generate({"--chat", "x", "--max-tokens", "60000", "--verbose"}));
  ASSERT_TRUE(child.wait_for_output(20));
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 130);
  EXPECT_THAT(child.err(), HasSubstr("interrupted"));
}

// Bytes of writable memory this process has, as RLIMIT_DATA counts them.
uint64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  uint64_t kilobytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmData:") status >> kilobytes;
  }
  return kilobytes * 1024;
}

int status_on_full_output(const std::vector<std::string>& words, std::string& said) {
  Child child(words, "", [] {
    const int full = ::open("/dev/full", O_WRONLY);
    ASSERT_EQ(::dup2(full, STDOUT_FILENO), STDOUT_FILENO);
  });
  const int status = child.wait();
  said = child.err();
  return status;
}

// An answer that reached nobody is a failure, for every command and for help.
TEST(Output, WhatCannotBeWrittenIsAFailure) {
  const std::string model = nano_model().string();
  const std::vector<std::vector<std::string>> lines = {
      {"--help"},         {"inspect", "--help"},        {"--version"},
      {"inspect", model}, {"inspect", model, "--json"}, generate({"--chat", "x"})};
  for (const std::vector<std::string>& words : lines) {
    std::string said;
    EXPECT_EQ(status_on_full_output(words, said), 1) << words.front();
    EXPECT_THAT(said, HasSubstr("written")) << words.front();
  }
}

// Less memory than the weights are large: they are mapped, never read into memory of our own, and
// the default context shrinks to what is left while an explicit one is kept or refused.
TEST(Generate, RunsWithLessMemoryThanTheCheckpoint) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more memory than the limit leaves";
#endif
  const auto limit_memory = [] {
    const uint64_t bytes = data_bytes() + (12ULL << 20);
    const rlimit limit{bytes, bytes};
    ASSERT_EQ(::setrlimit(RLIMIT_DATA, &limit), 0);
  };
  ASSERT_GT(std::filesystem::file_size(nano_model() / "model.safetensors"), 12ULL << 20);
  Child clamped(generate({"--chat", "x", "--max-tokens", "5"}), "", limit_memory);
  EXPECT_EQ(clamped.wait(), 0);
  EXPECT_THAT(clamped.err(), HasSubstr("context shortened"));
  Child small(generate({"--chat", "x", "--max-tokens", "5", "--context", "500"}), "", limit_memory);
  EXPECT_EQ(small.wait(), 0) << small.err();
  EXPECT_EQ(small.err(), "");
  Child large(generate({"--chat", "x", "--context", "65536"}), "", limit_memory);
  EXPECT_EQ(large.wait(), 1);
  EXPECT_THAT(large.err(), HasSubstr("tokens fit"));
}

}  // namespace
}  // namespace thimble::app
