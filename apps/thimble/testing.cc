#include "apps/thimble/testing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "apps/thimble/commands.h"
#include "base/check.h"

namespace thimble::app {

const Path& nano_model() {
  static const base::TempDir directory;
  static const Path path = [] {
    Path made = directory.path() / "nano";
    CHECK_EQ(run_thimble({"init", "--preset", "nano", "--out", made.string(), "--seed", "7"}), 0);
    return made;
  }();
  return path;
}

int run_thimble(std::vector<std::string> words) {
  words.insert(words.begin(), "thimble");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return run_command_line(static_cast<int>(argv.size()), argv.data(),
                          {inspect_command(), init_command(), bench_command(), generate_command(),
                           chat_command(), serve_command(), eval_command(), train_command()});
}

int status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1000 + WTERMSIG(wait_status);
}

Child::Child(std::vector<std::string> words, const std::string& input,
             const std::function<void()>& prepare) {
  CHECK(base::write_file_atomic(directory_.path() / "in", input).has_value());
  std::fflush(nullptr);
  pid_ = ::fork();
  CHECK(pid_ >= 0);
  if (pid_ != 0) return;
  const auto redirect = [this](const char* file, int flags, int to) {
    const int from = ::open((directory_.path() / file).c_str(), flags, 0600);
    CHECK(from >= 0 && ::dup2(from, to) == to);
  };
  redirect("in", O_RDONLY, STDIN_FILENO);
  redirect("out", O_WRONLY | O_CREAT, STDOUT_FILENO);
  redirect("err", O_WRONLY | O_CREAT, STDERR_FILENO);
  prepare();
  const int status = run_thimble(std::move(words));
  std::fflush(nullptr);
  ::_exit(status);
}

Child::~Child() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int Child::wait() {
  int status = 0;
  CHECK_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return status_of(status);
}

void Child::signal(int number) const { ::kill(pid_, number); }

bool Child::wait_for_output(size_t bytes) const {
  for (int tries = 0; tries < 3000; ++tries) {
    if (out().size() >= bytes) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::string Child::content(const char* file) const {
  return base::read_file(directory_.path() / file).value_or("");
}

}  // namespace thimble::app
