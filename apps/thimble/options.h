// What a subcommand says about its flags. CLI11 stays behind this in options.cc.
//
// Each call names a flag ("--seed", "-n,--max-tokens") or a positional ("MODEL"), the variable it
// sets and a line of help. Variables keep their value where the flag is absent; that value is shown
// as the default. They must outlive the parsing: commands keep them in a shared struct.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace thimble::app {

enum class Need { kOptional, kRequired };

class Options {
 public:
  void add(const std::string& name, std::string& value, const std::string& help,
           Need need = Need::kOptional);
  void add(const std::string& name, Path& value, const std::string& help,
           Need need = Need::kOptional);
  void add(const std::string& name, uint32_t& value, const std::string& help,
           Need need = Need::kOptional);
  void add(const std::string& name, uint64_t& value, const std::string& help,
           Need need = Need::kOptional);
  void add(const std::string& name, double& value, const std::string& help,
           Need need = Need::kOptional);
  // So many words, or none: "--compare A B".
  void add(const std::string& name, std::vector<std::string>& values, size_t count,
           const std::string& help);
  // Absent unless given.
  void add(const std::string& name, std::optional<std::string>& value, const std::string& help);
  void add(const std::string& name, std::optional<uint32_t>& value, const std::string& help);
  void add(const std::string& name, std::optional<uint64_t>& value, const std::string& help);
  void add(const std::string& name, std::optional<double>& value, const std::string& help);
  // True if given.
  void flag(const std::string& name, bool& value, const std::string& help);
  // One of `choices`; anything else is refused with the list.
  void choice(const std::string& name, std::string& value, std::vector<std::string> choices,
              const std::string& help, Need need = Need::kOptional);
  // At most one of these may be given; with kRequired exactly one must be.
  void exclusive(const std::vector<std::string>& names, Need need = Need::kOptional);

  struct Impl;
  explicit Options(Impl& impl) : impl_(impl) {}

 private:
  Impl& impl_;
};

// kInvalidArgument when a flag's value is outside of [low, high]: for a command's `check`.
Result<void> check_range(const char* flag, uint64_t value, uint64_t low, uint64_t high);

}  // namespace thimble::app
