// Which number of a JSON document fits no 64-bit integer and no double: the parser that keeps
// integers exact only says that there is one, and whoever has to repair the file wants its key.
//
// Stateless; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace thimble::arch {

// "text_config.hidden_size is 99999999999999999999" for the first of them, both shortened where
// long; empty where there is none before the document ends, is no JSON, or nests too deep.
std::optional<std::string> find_unfit_number(std::string_view json);

}  // namespace thimble::arch
