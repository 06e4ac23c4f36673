// The subcommands of `thimble`, one file each.
//
// A command is made by a function x_command() in x.cc: it keeps its flags in a shared struct, names
// them in `describe`, judges their values in `check` and reads them in `run`. main.cc lists the
// commands; nothing else knows them.
//
// Exit status: 0 done; 1 it could not be done (or, where a command says so, the answer is no);
// 2 the command line makes no sense, whatever the files and the model may be; 128 + N ended by
// signal N. Answers go to standard output, all else to standard error.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/thimble/options.h"
#include "base/result.h"

namespace thimble::app {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

struct Example {
  std::string line;     // a whole command line
  std::string meaning;  // a few words beside it; may be empty
};

struct Command {
  std::string name;
  std::string summary;                          // one line for `thimble --help`
  std::string details;                          // a paragraph for `thimble NAME --help`
  std::vector<Example> examples;                // the first one is shown in `thimble --help` too
  std::function<void(Options&)> describe = {};  // names the flags
  // Values that no file could make right; an error is printed and gives 2. May be empty.
  std::function<Result<void>()> check = {};
  std::function<Result<int>()> run = {};  // exit status; an error is printed and gives 1
  // A command may be a group instead: it has these and neither flags nor `run`.
  std::vector<Command> subcommands = {};
};

// Part of a command's answer to standard output. (fmt::print() throws where the output is full.) A
// failure is told when the command ends, with status 1.
void print_out(std::string_view text);

Command inspect_command();
Command init_command();
Command logits_command();
Command generate_command();
Command chat_command();
Command serve_command();
Command plan_command();
Command bench_command();
Command eval_command();
Command train_command();
Command tokenizer_command();

// Parses the command line, runs one command, prints its error, sees that what it wrote to standard
// output got there: all of main() but the list.
int run_command_line(int argc, char** argv, const std::vector<Command>& commands);

}  // namespace thimble::app
