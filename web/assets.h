// The chat page's files, as they were when the binary was built.
#pragma once

#include <span>
#include <string_view>

namespace thimble::web {

struct Asset {
  std::string_view path;  // "/" is index.html, "/app.js", ...
  std::string_view bytes;
};

std::span<const Asset> assets();

}  // namespace thimble::web
