// The environment variables thimble reads: all three of them.
#pragma once

#include <optional>
#include <string>

namespace thimble::base {

// THIMBLE_ISA: force a kernel table by name (scalar, avx2, avx512, avx512vnni) instead of the best
// one.
std::optional<std::string> env_isa();

// THIMBLE_LOG: trace, debug, info (default), warn, error or off.
std::optional<std::string> env_log_level();

// THIMBLE_HOME: the folder for what thimble remembers between runs, today what was typed into
// `thimble chat` (chat_history); else $XDG_DATA_HOME/thimble or ~/.local/share/thimble.
std::string env_home();

}  // namespace thimble::base
