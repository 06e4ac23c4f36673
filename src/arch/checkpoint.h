// A model directory in the released layout, mapped and verified: config.json, one safetensors file
// or shards behind model.safetensors.index.json (the index decides where both are there).
//
// open() refuses by name whatever does not match the configuration's tensor table: missing,
// unexpected, wrong shape, wrong dtype, ranges that overlap or leave the file, truncated shards,
// values that are no numbers. Views stay valid for the life of the object. Safe to read from any
// thread.
//
// Values are checked where it costs little: every tensor of a checkpoint of at most
// kMaxScannedBytes; of a larger one every tensor of at most kMaxScannedTensor that is no routed
// expert's and no Engram table, which takes in all other scales. Whoever packs the rest calls
// check_values() on it.
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

inline constexpr uint64_t kMaxScannedBytes = 4ULL << 30;
inline constexpr uint64_t kMaxScannedTensor = 4ULL << 20;

// One thing a directory's files get wrong.
struct Mismatch {
  enum class Kind { kMissing, kUnexpected, kShape, kDType, kFile, kValue };
  Kind kind = Kind::kMissing;
  std::string tensor;  // or file name for kFile
  std::string detail;  // what was found, what was expected, where
};

const char* to_string(Mismatch::Kind kind);

// Is every value of the tensor a finite number? E8M0 0xFF, E4M3 0x7F and 0xFF, infinities and NaNs
// of the wider formats are not. The error names the first bad element.
Result<void> check_values(const TensorView& tensor);

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
  uint64_t bytes() const { return bytes_; }  // of all tensors
  // Whether the system says which pages of the files are in memory (base/read_ahead.h).
  bool tells_residency() const;

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

// Fails only where config.json cannot be understood; everything else becomes a mismatch.
Result<CheckpointReport> inspect_checkpoint(const Path& directory);

}  // namespace thimble::arch
