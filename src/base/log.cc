#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/env.h"

namespace thimble::base {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("thimble");
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

// Values with spaces, quotes or control characters are quoted, so that a line stays one record.
std::string quoted(const std::string& value) {
  bool plain = !value.empty();
  for (const char c : value)
    plain = plain && static_cast<unsigned char>(c) > ' ' && c != '"' && c != '=';
  if (plain) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

void write(spdlog::level::level_enum level, std::string_view event,
           std::initializer_list<LogField> fields) {
  if (!logger().should_log(level)) return;
  std::string line(event);
  for (const LogField& field : fields)
    line += fmt::format(" {}={}", field.key, quoted(field.value));
  logger().log(level, "{}", line);
}

}  // namespace

void init_log() {
  const auto wanted = env_log_level();
  if (!wanted) return;
  const auto level = spdlog::level::from_str(*wanted);
  if (level == spdlog::level::off && *wanted != "off") {
    log_warn("log level not understood", {{"THIMBLE_LOG", *wanted}, {"using", "info"}});
    return;
  }
  logger().set_level(level);
}

void log_debug(std::string_view event, std::initializer_list<LogField> fields) {
  write(spdlog::level::debug, event, fields);
}
void log_info(std::string_view event, std::initializer_list<LogField> fields) {
  write(spdlog::level::info, event, fields);
}
void log_warn(std::string_view event, std::initializer_list<LogField> fields) {
  write(spdlog::level::warn, event, fields);
}
void log_error(std::string_view event, std::initializer_list<LogField> fields) {
  write(spdlog::level::err, event, fields);
}

}  // namespace thimble::base
