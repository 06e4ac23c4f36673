// For tests of commands: a made model, and `thimble` run in a child process with its own streams.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"

namespace thimble::app {

// A nano model that `thimble init` made for this process, removed when it ends.
const Path& nano_model();

// One run of the program. Standard input is `input`, the other two are kept in files.
class Child {
 public:
  // `prepare` runs in the child before the program: limits, for instance.
  explicit Child(
      std::vector<std::string> words, const std::string& input = "",
      const std::function<void()>& prepare = [] {});
  ~Child();  // kills what still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int wait();  // exit status; 1000 + signal when one ended it
  std::string out() const { return content("out"); }
  std::string err() const { return content("err"); }
  // Waits up to 30 s until standard output holds `bytes` bytes.
  bool wait_for_output(size_t bytes) const;
  void signal(int number) const;

 private:
  std::string content(const char* file) const;

  base::TempDir directory_;
  pid_t pid_ = -1;
};

// `thimble` with these words, in the process that calls: for a child. Returns its exit status.
int run_thimble(std::vector<std::string> words);

// How waitpid() put it: exit status, or 1000 + signal.
int status_of(int wait_status);

}  // namespace thimble::app
