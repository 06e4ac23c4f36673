#include "apps/thimble/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>

#include "apps/thimble/commands.h"
#include "base/terminal.h"

namespace thimble::app {

// One subcommand's CLI11 object.
struct Options::Impl {
  CLI::App& app;
};

namespace {

void require(CLI::Option* option, Need need) {
  if (need == Need::kRequired) option->required();
}

// The whole of `text` as a number; empty if it is none or does not fit. (CLI11 reads -1 and 2^64 as
// the largest number.)
template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(static_cast<double>(value))) return std::nullopt;
  return value;
}

template <class T>
std::string expectation() {
  if constexpr (std::is_floating_point_v<T>) return "a number";
  return fmt::format("a whole number from 0 to {}", std::numeric_limits<T>::max());
}

// `Target` is T or an optional of it.
template <class T, class Target>
void add_number(CLI::App& app, const std::string& name, Target& target, const std::string& help,
                Need need) {
  const auto store = [&target](const std::string& text) {
    const std::optional<T> number = parse_number<T>(text);
    if (number) target = *number;
  };
  CLI::Option* option = app.add_option_function<std::string>(name, store, help);
  option->type_name(std::is_floating_point_v<T> ? "X" : "N");
  option->check(
      [](const std::string& text) {
        if (parse_number<T>(text)) return std::string();
        return fmt::format("expected {}, not {}", expectation<T>(), text);
      },
      "");
  require(option, need);
  if constexpr (std::is_same_v<T, Target>) {
    if (need == Need::kOptional) option->default_str(fmt::format("{}", target));
  }
}

}  // namespace

void Options::add(const std::string& name, std::string& value, const std::string& help, Need need) {
  CLI::Option* option = impl_.app.add_option(name, value, help)->type_name("TEXT");
  require(option, need);
  if (!value.empty()) option->capture_default_str();
}

void Options::add(const std::string& name, Path& value, const std::string& help, Need need) {
  const auto store = [&value](const std::string& text) { value = text; };
  CLI::Option* option = impl_.app.add_option_function<std::string>(name, store, help);
  require(option->type_name("PATH"), need);
  if (!value.empty()) option->default_str(value.string());
}

void Options::add(const std::string& name, uint32_t& value, const std::string& help, Need need) {
  add_number<uint32_t>(impl_.app, name, value, help, need);
}

void Options::add(const std::string& name, uint64_t& value, const std::string& help, Need need) {
  add_number<uint64_t>(impl_.app, name, value, help, need);
}

void Options::add(const std::string& name, double& value, const std::string& help, Need need) {
  add_number<double>(impl_.app, name, value, help, need);
}

void Options::add(const std::string& name, std::vector<std::string>& values, size_t count,
                  const std::string& help) {
  impl_.app.add_option(name, values, help)->type_name("TEXT")->expected(static_cast<int>(count));
}

void Options::add(const std::string& name, std::optional<std::string>& value,
                  const std::string& help) {
  impl_.app.add_option(name, value, help)->type_name("TEXT");
}

void Options::add(const std::string& name, std::optional<uint32_t>& value,
                  const std::string& help) {
  add_number<uint32_t>(impl_.app, name, value, help, Need::kOptional);
}

void Options::add(const std::string& name, std::optional<uint64_t>& value,
                  const std::string& help) {
  add_number<uint64_t>(impl_.app, name, value, help, Need::kOptional);
}

void Options::add(const std::string& name, std::optional<double>& value, const std::string& help) {
  add_number<double>(impl_.app, name, value, help, Need::kOptional);
}

void Options::flag(const std::string& name, bool& value, const std::string& help) {
  impl_.app.add_flag(name, value, help);
}

void Options::choice(const std::string& name, std::string& value, std::vector<std::string> choices,
                     const std::string& help, Need need) {
  CLI::Option* option = impl_.app.add_option(name, value, help);
  option->type_name(fmt::format("{}", fmt::join(choices, "|")));
  option->check(
      [choices](const std::string& given) {
        if (std::find(choices.begin(), choices.end(), given) != choices.end()) return std::string();
        return fmt::format("{} is none of {}", given, fmt::join(choices, ", "));
      },
      "");
  require(option, need);
  if (need == Need::kOptional && !value.empty()) option->capture_default_str();
}

void Options::exclusive(const std::vector<std::string>& names, Need need) {
  CLI::Option_group* group = impl_.app.add_option_group("one of these");
  for (const std::string& name : names) group->add_option(impl_.app.get_option(name));
  group->require_option(need == Need::kRequired ? 1 : 0, 1);
}

namespace {

std::string examples_text(const std::vector<Example>& examples) {
  size_t width = 0;
  for (const Example& example : examples) width = std::max(width, example.line.size());
  std::string text = "Examples:";
  for (const Example& example : examples) {
    text += "\n  ";
    text += example.meaning.empty()
                ? example.line
                : fmt::format("{:<{}}  # {}", example.line, width, example.meaning);
  }
  return text;
}

// Words of `text` in lines of at most 80 columns.
std::string wrapped(const std::string& text) {
  constexpr size_t kColumns = 80;
  std::string out;
  size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > kColumns) {
      out += '\n';
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

// Lists commands by their summaries alone; CLI11 would repeat their whole descriptions.
class OverviewFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* sub) const override {
    const std::string description = sub->get_description();
    return fmt::format("  {:<{}}{}\n", sub->get_name(), get_column_width() - 2,
                       description.substr(0, description.find('\n')));
  }
};

// What the command line chose: a command by its whole name, or a group that was named alone.
struct Choice {
  const Command* command = nullptr;
  std::string name;
  CLI::App* group = nullptr;
};

void add_command(CLI::App& app, const Command& command, const std::string& above, Choice& choice) {
  CLI::App* sub = app.add_subcommand(command.name);
  sub->description(command.summary + "\n\n" + wrapped(command.details));
  sub->footer(examples_text(command.examples));
  const std::string name = above + command.name;
  if (!command.subcommands.empty()) {
    sub->require_subcommand(0, 1);
    sub->callback([&choice, sub] { choice.group = sub; });
    for (const Command& below : command.subcommands) add_command(*sub, below, name + " ", choice);
    return;
  }
  Options::Impl impl{*sub};
  Options options(impl);
  command.describe(options);
  sub->callback([&choice, &command, name] {
    choice.command = &command;
    choice.name = name;
  });
}

std::string overview(const std::vector<Command>& commands) {
  std::vector<Example> firsts;
  for (const Command& command : commands) {
    if (!command.examples.empty()) firsts.push_back(command.examples.front());
  }
  return examples_text(firsts) +
         "\n\n"
         "Exit status: 0 done; 1 it failed, `inspect` found a mismatch, or `eval` a route that\n"
         "should be exact and is not; 2 the command line makes no sense; 130 ended by Ctrl-C.\n\n"
         "`thimble COMMAND --help` explains a command.";
}

void report(const Error& error, std::string_view command) {
  fmt::print(stderr, "{} {}\n",
             base::styled(base::Stream::kErr, base::Style::kRed,
                          command.empty() ? "thimble:" : fmt::format("thimble {}:", command)),
             error.describe());
}

// `status`, or failure where not all of standard output was written.
int flushed(int status, std::string_view command) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  report({ErrorCode::kIo, "standard output could not be written", {}}, command);
  return kExitFailed;
}

int run_command(const Choice& choice) {
  const Command& command = *choice.command;
  if (command.check) {
    if (const auto sensible = command.check(); !sensible) {
      report(sensible.error(), choice.name);
      return kExitUsage;
    }
  }
  const Result<int> status = command.run();
  if (status) return flushed(*status, choice.name);
  report(status.error(), choice.name);
  return kExitFailed;
}

}  // namespace

void print_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Result<void> check_range(const char* flag, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return {};
  return base::fail(ErrorCode::kInvalidArgument, "{} is {}, expected {} to {}", flag, value, low,
                    high);
}

int run_command_line(int argc, char** argv, const std::vector<Command>& commands) {
  CLI::App app("thimble runs models of the DeepSeek-V4.1-Flash architecture.", "thimble");
  app.set_version_flag("--version", "thimble " THIMBLE_VERSION);
  app.require_subcommand(0, 1);
  app.footer(overview(commands));
  app.formatter(std::make_shared<OverviewFormatter>());
  Choice choice;
  for (const Command& command : commands) add_command(app, command, "", choice);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? flushed(kExitDone, "") : kExitUsage;
  }
  if (choice.command == nullptr) {
    fmt::print(stderr, "{}", choice.group == nullptr ? app.help() : choice.group->help());
    return kExitUsage;
  }
  return run_command(choice);
}

}  // namespace thimble::app
