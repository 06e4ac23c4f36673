#include "apps/thimble/bench/compare.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace thimble::app {
namespace {

using nlohmann::json;

// Times by case: operation, layout, shape, rows, instruction set, threads.
using Runs = std::map<std::string, double>;

constexpr const char* kCaseKeys[] = {"op", "layout", "shape", "n", "isa", "threads"};

// Empty for what is no result.
std::string case_of(const json& line) {
  if (!line.is_object()) return "";
  const auto us = line.find("us");
  if (us == line.end() || !us->is_number() || us->get<double>() <= 0) return "";
  std::string name;
  for (const char* key : kCaseKeys) {
    const auto value = line.find(key);
    if (value == line.end()) return "";
    name += name.empty() ? "" : " ";
    name += value->is_string() ? value->get<std::string>() : value->dump();
  }
  return name;
}

Result<Runs> read_runs(const Path& file) {
  const std::string text = THIMBLE_TRY(base::read_file(file));
  Runs runs;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    const json parsed = json::parse(line, nullptr, false);
    const std::string name = case_of(parsed);
    if (name.empty()) {
      return base::fail(ErrorCode::kCorrupt,
                        "{}, line {}: no result of `thimble bench kernels --json`", file.string(),
                        number);
    }
    if (!runs.emplace(name, parsed["us"]).second) {
      return base::fail(ErrorCode::kCorrupt, "{}, line {}: {} is there twice", file.string(),
                        number, name);
    }
  }
  if (runs.empty()) {
    return base::fail(ErrorCode::kCorrupt, "{}: no result of `thimble bench kernels --json`",
                      file.string());
  }
  return runs;
}

}  // namespace

Result<std::string> compare_runs(const Path& before, const Path& after) {
  const Runs old_runs = THIMBLE_TRY(read_runs(before));
  const Runs new_runs = THIMBLE_TRY(read_runs(after));
  std::string out =
      fmt::format("{:<60}{:>12}{:>12}{:>9}\n", "case", "before, us", "after, us", "times");
  for (const auto& [name, us] : new_runs) {
    const auto found = old_runs.find(name);
    if (found == old_runs.end()) {
      out += fmt::format("{:<60}{:>12}{:>12.1f}\n", name, "-", us);
    } else {
      out += fmt::format("{:<60}{:>12.1f}{:>12.1f}{:>9.2f}\n", name, found->second, us,
                         found->second / us);
    }
  }
  for (const auto& [name, us] : old_runs) {
    if (!new_runs.contains(name)) out += fmt::format("{:<60}{:>12.1f}{:>12}\n", name, us, "-");
  }
  return out;
}

}  // namespace thimble::app
