// One log call: an event and key=value pairs, to standard error. Modules below `engine` do not log.
//
//   log_info("request", {{"id", id}, {"prompt_tokens", n}});
// Thread-safe.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace thimble::base {

struct LogField {
  std::string_view key;
  std::string value;

  template <class T>
  LogField(std::string_view k, const T& v) : key(k), value(fmt::format("{}", v)) {}
};

// Reads the level from THIMBLE_LOG; called once by main. Unknown levels are reported and ignored.
void init_log();

void log_debug(std::string_view event, std::initializer_list<LogField> fields = {});
void log_info(std::string_view event, std::initializer_list<LogField> fields = {});
void log_warn(std::string_view event, std::initializer_list<LogField> fields = {});
void log_error(std::string_view event, std::initializer_list<LogField> fields = {});

}  // namespace thimble::base
