// Bytes that are written once and then read in place, for what memory should not hold: a file of a
// folder without a name, gone with its last owner or the process. Not thread-safe.
#pragma once

#include <string>

#include "base/file.h"

namespace thimble::base {

class ScratchFile {
 public:
  static Result<ScratchFile> create(const Path& folder);

  Result<void> append(Bytes bytes);
  // All that was appended.
  Result<MappedFile> map() &&;

 private:
  ScratchFile(Path folder, Descriptor file) : folder_(std::move(folder)), file_(std::move(file)) {}
  Result<void> flush();

  Path folder_;  // for errors
  Descriptor file_;
  std::string buffer_;
};

}  // namespace thimble::base
