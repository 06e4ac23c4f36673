// A model directory in the released layout, mapped and verified: config.json, one safetensors file or
// shards behind model.safetensors.index.json.
//
// open() refuses by name whatever does not match the configuration's tensor table: missing,
// unexpected, wrong shape, wrong dtype, ranges that overlap or leave the file, truncated shards,
// NaN scales. Views stay valid for the life of the object. Safe to read from any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/config.h"
#include "arch/safetensors.h"
#include "arch/weight_table.h"
#include "base/result.h"

namespace thimble::arch {

// One thing a directory's files get wrong.
struct Mismatch {
  enum class Kind { kMissing, kUnexpected, kShape, kDType, kFile, kValue };
  Kind kind = Kind::kMissing;
  std::string tensor;  // or file name for kFile
  std::string detail;  // what was found, what was expected, where
};

class Checkpoint {
 public:
  // Maps and verifies; the error lists the first mismatches and counts the rest.
  static Result<Checkpoint> open(const Path& directory);

  const Config& config() const { return config_; }
  const Path& directory() const { return directory_; }
  // REQUIRES: `name` is in the tensor table and not optional (a mistake of ours otherwise).
  const TensorView& tensor(std::string_view name) const;
  // Null when an optional tensor is absent.
  const TensorView* find(std::string_view name) const;
  uint64_t bytes() const { return bytes_; }

 private:
  Checkpoint() = default;
  Config config_;
  Path directory_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  uint64_t bytes_ = 0;
};

// What inspection of a directory found; open() succeeds exactly when `mismatches` is empty.
struct CheckpointReport {
  Config config;
  std::map<std::string, TensorEntry, std::less<>> found;
  std::vector<Mismatch> mismatches;
};
Result<CheckpointReport> inspect_checkpoint(const Path& directory);

}  // namespace thimble::arch
