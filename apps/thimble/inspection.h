// What `thimble inspect` found out about a model, and its two renderings.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arch/checkpoint.h"
#include "arch/config.h"
#include "arch/fingerprint.h"
#include "arch/weight_table.h"

namespace thimble::app {

struct Inspection {
  std::string source;  // as the user named it
  arch::Config config;
  std::vector<arch::ExpectedTensor> expected;
  // Only for a directory: a configuration alone has no files to compare.
  std::optional<arch::CheckpointReport> files;
  // Of the weights, if asked for: it reads most of them.
  std::optional<arch::Fingerprint> fingerprint;
};

// 32 hexadecimal digits.
std::string hex(const arch::Fingerprint& fingerprint);

// Totals of the expected table and of what was found, by part and dtype.
struct TableLine {
  arch::WeightTotals expected;
  arch::WeightTotals found;
};
using TensorTable = std::map<std::pair<std::string, std::string>, TableLine>;
TensorTable tensor_table(const Inspection& inspection);

std::string inspection_json(const Inspection& inspection);
std::string inspection_text(const Inspection& inspection);

}  // namespace thimble::app
