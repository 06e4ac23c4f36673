// Aim: `chat` answers turn by turn from a pipe or a terminal, keeps pasted lines together, and
// Ctrl-C ends an answer but not the session. Method: the command in a child process, behind a pipe
// and behind a pseudo-terminal that types.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "apps/thimble/testing.h"

namespace thimble::app {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> chat(std::vector<std::string> words) {
  std::vector<std::string> all = {"chat",   "--model", nano_model().string(), "--threads", "1",
                                  "--seed", "3"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

TEST(Chat, FromAPipeEachLineIsAMessage) {
  Child two(chat({"--max-tokens", "8", "--verbose"}), "hello\n\nagain\n");
  EXPECT_EQ(two.wait(), 0);
  const std::string out = two.out();
  EXPECT_GE(std::count(out.begin(), out.end(), '\n'), 2);
  EXPECT_THAT(out, Not(HasSubstr("> ")));
  // BOS, the turn's two markers, </think> and five bytes; the second prompt has the first turn too.
  EXPECT_THAT(two.err(), HasSubstr("9 prompt tokens"));
  EXPECT_THAT(two.err(), ContainsRegex("[1-9][0-9] prompt tokens .[1-9][0-9]* cached. in"));
  EXPECT_THAT(two.err(), Not(HasSubstr("/help")));
}

TEST(Chat, GivesTheAnswersThatGenerateGives) {
  Child one(chat({"--max-tokens", "8"}), "hello\n");
  EXPECT_EQ(one.wait(), 0);
  Child generated({"generate", "--model", nano_model().string(), "--chat", "hello", "--max-tokens",
                   "8", "--seed", "3"});
  EXPECT_EQ(generated.wait(), 0);
  EXPECT_EQ(one.out(), generated.out() + (generated.out().ends_with('\n') ? "" : "\n"));
}

TEST(Chat, CommandsWorkFromAPipe) {
  Child child(chat({"--max-tokens", "4", "--verbose"}),
              "hello\n/reset\nhello\n//x\n/system be kind\n/effort low\n/quit\nnever read\n");
  EXPECT_EQ(child.wait(), 0);
  const std::string err = child.err();
  const size_t first = err.find("9 prompt tokens");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(err.find("9 prompt tokens", first + 1), std::string::npos) << "after /reset";
  EXPECT_THAT(err, HasSubstr("System text set."));
  EXPECT_THAT(err, HasSubstr("effort 50"));
}

// The rest is answered as if the line were not there, and the status tells of it.
TEST(Chat, AnUnknownCommandFromAPipeIsReportedAndLeftOut) {
  Child without(chat({"--max-tokens", "8"}), "hello\nagain\n");
  EXPECT_EQ(without.wait(), 0);
  Child child(chat({"--max-tokens", "8"}), "hello\n/nonsense\n/effort 0\nagain\n");
  EXPECT_EQ(child.wait(), 1);
  EXPECT_EQ(child.out(), without.out());
  EXPECT_THAT(child.err(), HasSubstr("thimble chat: /nonsense is no command"));
  EXPECT_THAT(child.err(), HasSubstr("thimble chat: /effort"));
  Child quits(chat({}), "/nonsense\n/quit\n");
  EXPECT_EQ(quits.wait(), 1);
}

TEST(Chat, AMessageFromAPipeThatCannotBeAnsweredEndsIt) {
  Child child(chat({"--max-tokens", "4"}), "bad \xFF byte\nhello\n");
  EXPECT_EQ(child.wait(), 1);
  EXPECT_EQ(child.out(), "");
  EXPECT_THAT(child.err(), HasSubstr("the message is not valid UTF-8 (byte 5 of 10)"));
}

TEST(Chat, FromAPipeNothingButAnswersIsShown) {
  Child child(chat({"--max-tokens", "4"}), "hello\n/reset\n/system be kind\n/effort none\nhello\n");
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(child.err(), "");
  Child reasons(chat({"--max-tokens", "4", "--effort", "low"}), "hello\n");
  EXPECT_EQ(reasons.wait(), 0);
  EXPECT_EQ(reasons.out(), "\n");
  EXPECT_THAT(reasons.err(), Not(HasSubstr("\x1b[")));
}

TEST(Chat, TerminationEndsItWithItsSignal) {
  Child child(chat({"--max-tokens", "60000"}), "hello\nnever reached\n");
  ASSERT_TRUE(child.wait_for_output(20));
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 128 + SIGTERM);
}

TEST(Chat, ABackslashGoesOnInTheNextLine) {
  Child child(chat({"--max-tokens", "4", "--verbose"}), "ab\\\ncd\n");
  EXPECT_EQ(child.wait(), 0);
  EXPECT_THAT(child.err(), HasSubstr("9 prompt tokens"));  // "ab\ncd": five bytes and the header
}

TEST(Chat, InterruptEndsAPipedSession) {
  Child child(chat({"--max-tokens", "60000"}), "hello\nnever reached\n");
  ASSERT_TRUE(child.wait_for_output(20));
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 130);
}

// A terminal with someone at the keys.
class Terminal {
 public:
  explicit Terminal(
      std::vector<std::string> words, const std::function<void()>& prepare = [] {}) {
    nano_model();
    pid_ = ::forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    ::setenv("TERM", "xterm", 1);                       // NOLINT(concurrency-mt-unsafe)
    ::setenv("THIMBLE_HOME", home_.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    ::setenv("NO_COLOR", "1", 1);                       // NOLINT(concurrency-mt-unsafe)
    prepare();
    const int status = run_thimble(std::move(words));
    std::fflush(nullptr);
    ::_exit(status);
  }
  ~Terminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view keys) {
    ASSERT_EQ(::write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Waits until the screen shows `text` after what was seen before.
  bool see(std::string_view text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (true) {
      const size_t at = screen_.find(text, seen_);
      if (at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (std::chrono::steady_clock::now() > deadline || !read_some()) return false;
    }
  }
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status_of(status);
  }
  const std::string& screen() const { return screen_; }
  const Path& home() const { return home_.path(); }

 private:
  bool read_some() {
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, 30'000) <= 0) return false;
    char buffer[4096];
    const ssize_t got = ::read(fd_, buffer, sizeof(buffer));
    if (got <= 0) return false;  // the other side is gone
    screen_.append(buffer, static_cast<size_t>(got));
    return true;
  }

  base::TempDir home_;
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string screen_;
  size_t seen_ = 0;
};

TEST(ChatOnATerminal, AnswersAndLeaves) {
  Terminal terminal(chat({"--max-tokens", "4", "--verbose"}));
  ASSERT_TRUE(terminal.see("/help lists the commands")) << terminal.screen();
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("gr\xC3\xBC\xC3\x9F dich\r");
  ASSERT_TRUE(terminal.see("15 prompt tokens")) << terminal.screen();  // 11 bytes and the header
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST(ChatOnATerminal, CtrlCEndsAnAnswerAndKeepsTheSession) {
  Terminal terminal(chat({"--max-tokens", "60000"}));
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("hello\r");
  ASSERT_TRUE(terminal.see("hello\r\n"));
  ASSERT_TRUE(terminal.see("\xEF\xBF\xBD")) << "the noise of random weights";
  terminal.type("\x03");
  ASSERT_TRUE(terminal.see("interrupted")) << terminal.screen();
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("typed and dropped\x03");
  ASSERT_TRUE(terminal.see("dropped")) << terminal.screen() << terminal.wait();
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("/quit\r");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST(ChatOnATerminal, APasteOfSeveralLinesIsOneMessage) {
  Terminal terminal(chat({"--max-tokens", "4", "--verbose"}));
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("\x1b[200~ab\rcd\r\x1b[201~");
  ASSERT_TRUE(terminal.see("cd"));
  terminal.type("\r");
  ASSERT_TRUE(terminal.see("9 prompt tokens")) << terminal.screen();
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("/quit\r");
  EXPECT_EQ(terminal.wait(), 0);
  const auto history = base::read_file(terminal.home() / "chat_history");
  ASSERT_TRUE(history.has_value());
  EXPECT_THAT(*history, HasSubstr("ab\\012cd"));
}

// Keys from a terminal, but nobody sees the screen: files must not collect escape codes.
TEST(ChatOnATerminal, EditingShowsOnTerminalsOnly) {
  const base::TempDir directory;
  const auto redirect = [&] {
    ::unsetenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
    for (const auto& [file, to] : {std::pair{"out", STDOUT_FILENO}, {"err", STDERR_FILENO}}) {
      const int from = ::open((directory.path() / file).c_str(), O_WRONLY | O_CREAT, 0600);
      ASSERT_EQ(::dup2(from, to), to);
    }
  };
  Terminal terminal(chat({"--max-tokens", "4", "--effort", "low", "--verbose"}), redirect);
  terminal.type("hello\n\x04");
  EXPECT_EQ(terminal.wait(), 0);
  for (const char* file : {"out", "err"}) {
    EXPECT_THAT(*base::read_file(directory.path() / file), Not(HasSubstr("\x1b")));
  }
  EXPECT_THAT(*base::read_file(directory.path() / "err"), HasSubstr("prompt tokens"));
}

TEST(ChatOnATerminal, ErrorsKeepTheSession) {
  Terminal terminal(chat({"--context", "30", "--max-tokens", "4"}));
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("a message much longer than this little context\r");
  ASSERT_TRUE(terminal.see("no room for an answer")) << terminal.screen();
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("/effort 0\r");
  ASSERT_TRUE(terminal.see("/effort:")) << terminal.screen();
  ASSERT_TRUE(terminal.see("> "));
  terminal.type("/quit\r");
  EXPECT_EQ(terminal.wait(), 0);
}

}  // namespace
}  // namespace thimble::app
