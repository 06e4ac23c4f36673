// The tensor files of a model directory, opened, and which file holds which tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "arch/checkpoint.h"
#include "arch/safetensors.h"

namespace thimble::arch {

struct Shards {
  std::vector<SafetensorsFile> files;
  std::map<std::string, TensorView, std::less<>> tensors;      // of the files that could be read
  std::map<std::string, TensorEntry, std::less<>> entries;     // the same tensors
  std::map<std::string, std::string, std::less<>> file_names;  // tensor to file name
  std::vector<Mismatch> mismatches;
};

// Never fails: what cannot be read or contradicts the index is a mismatch.
Shards open_shards(const Path& directory);

}  // namespace thimble::arch
