#include "tests/style/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

namespace thimble::style {
namespace {

// Empty for "x.h" and for the standard library's <numeric>.
std::string first_folder(const std::string& target) {
  const size_t slash = target.find('/');
  return slash == std::string::npos ? "" : target.substr(0, slash);
}

std::optional<std::string> objection(const std::string& module, const Include& include,
                                     const Layers& layers) {
  const std::string other = first_folder(include.target);
  if (layers.count(other) == 0) {
    if (!include.quoted) return std::nullopt;  // a library's or the system's header
    return fmt::format("\"{}\": includes between quotes are written from src/", include.target);
  }
  if (!include.quoted) return fmt::format("<{}>: our own headers go in quotes", include.target);
  if (other == module) return std::nullopt;
  if (include.target.find("/internal/") != std::string::npos) {
    return fmt::format("\"{}\" is private to {}", include.target, other);
  }
  if (layers.at(module).count(other) == 0) {
    return fmt::format("\"{}\": {} may not include {} (cmake/layers.txt)", include.target, module,
                       other);
  }
  return std::nullopt;
}

// A module's own, or a program's: nobody else can include it.
bool is_private_header(std::string_view path) {
  return path.find("/internal/") != std::string_view::npos || path.starts_with("apps/");
}

// A module that its own arrows lead back to, if there is one.
std::optional<std::string> find_cycle(const Layers& layers) {
  for (const auto& [start, direct] : layers) {
    std::set<std::string> seen;
    std::vector<std::string> to_visit(direct.begin(), direct.end());
    while (!to_visit.empty()) {
      const std::string module = to_visit.back();
      to_visit.pop_back();
      if (module == start) return start;
      if (!seen.insert(module).second || layers.count(module) == 0) continue;
      to_visit.insert(to_visit.end(), layers.at(module).begin(), layers.at(module).end());
    }
  }
  return std::nullopt;
}

// A library and the folder that may name it, in .cc files and private headers only.
struct Fence {
  std::string_view prefix;
  std::string_view folder;
};

constexpr std::array kFences = {
    Fence{"boost/", "src/net/"},
    Fence{"CLI/", "apps/thimble/"},
    Fence{"unicode/", "src/text/"},
    Fence{"pcre2.h", "src/text/"},
    Fence{"histedit.h", "apps/thimble/"},
    Fence{"editline/", "apps/thimble/"},
    Fence{"spdlog/", "src/base/"},
    Fence{"simdjson.h", "src/"},
    Fence{"xxhash.h", "src/"},
    Fence{"prometheus/", "src/server/"},
};

}  // namespace

Layers parse_layers(const std::vector<std::string>& lines) {
  Layers layers;
  for (const std::string& line : lines) {
    const size_t colon = line.find(':');
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    std::set<std::string>& allowed = layers[line.substr(0, colon)];
    std::istringstream rest(line.substr(colon + 1));
    for (std::string module; rest >> module;) allowed.insert(module);
  }
  return layers;
}

std::vector<Finding> check_layers(const std::vector<SourceFile>& files, const Layers& layers) {
  std::vector<Finding> findings;
  if (const auto module = find_cycle(layers)) {
    findings.push_back({"cmake/layers.txt", 0, *module + " reaches itself"});
  }
  for (const SourceFile& file : files) {
    const std::string module = module_of(file.path);
    if (module.empty()) continue;
    if (layers.count(module) == 0) {
      findings.push_back({file.path, 0, module + " has no line in cmake/layers.txt"});
      continue;
    }
    for (const Include& include : file.includes) {
      // Tests beside the code may open the golden data.
      if (is_test(file.path) && include.target == "tests/golden/golden.h") continue;
      if (const auto message = objection(module, include, layers)) {
        findings.push_back({file.path, include.line, *message});
      }
    }
  }
  return findings;
}

std::vector<Finding> check_fences(const std::vector<SourceFile>& files) {
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    if (is_test(file.path)) continue;
    for (const Include& include : file.includes) {
      for (const Fence& fence : kFences) {
        if (!include.target.starts_with(fence.prefix) || is_excused(file, include.line)) continue;
        if (!file.path.starts_with(fence.folder)) {
          findings.push_back({file.path, include.line,
                              fmt::format("<{}> stays inside {}", include.target, fence.folder)});
        } else if (is_header(file.path) && !is_private_header(file.path)) {
          findings.push_back(
              {file.path, include.line, fmt::format("<{}> belongs in a .cc file", include.target)});
        }
      }
    }
  }
  return findings;
}

std::vector<Finding> check_regions(const std::vector<SourceFile>& files) {
  constexpr std::array<std::string_view, 5> kBefore = {"cstddef", "cstdint", "cstring",
                                                       "type_traits", "utility"};
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    if (!file.path.starts_with("src/kernels/generic/")) continue;
    for (const Include& include : file.includes) {
      if (include.quoted || std::ranges::count(kBefore, include.target) > 0) continue;
      findings.push_back(
          {file.path, include.line,
           fmt::format("<{}> would be compiled for one instruction set", include.target)});
    }
  }
  return findings;
}

}  // namespace thimble::style
