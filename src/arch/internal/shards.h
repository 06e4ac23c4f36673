// The tensor files of a model directory, opened, and which file holds which tensor.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arch/checkpoint.h"
#include "arch/safetensors.h"

namespace thimble::arch {

struct Shards {
  std::vector<SafetensorsFile> files;
  std::map<std::string, TensorView, std::less<>> tensors;      // of the files that could be read
  std::map<std::string, TensorEntry, std::less<>> entries;     // the same tensors
  std::map<std::string, std::string, std::less<>> file_names;  // tensor to file name
  std::set<std::string, std::less<>> unread;  // the index puts them into files that cannot be read
  bool all_unread = false;                    // the index itself, or the only file, cannot be read
  std::vector<Mismatch> mismatches;

  // Nothing can be said of this tensor; the mismatch of its file says why.
  bool is_unread(std::string_view tensor) const { return all_unread || unread.contains(tensor); }
};

// Never fails: what cannot be read or contradicts the index is a mismatch.
Shards open_shards(const Path& directory);

}  // namespace thimble::arch
