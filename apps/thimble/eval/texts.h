// What the evaluations read when no text is given: a story and a program, some thousand bytes each.
#pragma once

#include <span>
#include <string_view>

namespace thimble::app {

struct BuiltInText {
  std::string_view name;
  std::string_view text;
};

std::span<const BuiltInText> built_in_texts();

}  // namespace thimble::app
