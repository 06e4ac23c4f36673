// Bytes that are written once and then read in place, for what memory should not hold: a file of a
// folder without a name, gone with the object or the process.
//
// Not thread-safe while it is written; what map() gave is safe to read from any thread.
#pragma once

#include <string>

#include "base/file.h"

namespace thimble::base {

class ScratchFile {
 public:
  static Result<ScratchFile> create(const Path& folder);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) noexcept;
  ~ScratchFile();

  Result<void> append(Bytes bytes);
  // All that was appended, as long as the object lives. Once; nothing is appended after it.
  Result<Bytes> map();

 private:
  ScratchFile(Path folder, int fd) : folder_(std::move(folder)), fd_(fd) {}
  Result<void> flush();

  Path folder_;  // for errors
  int fd_ = -1;
  std::string buffer_;
  size_t size_ = 0;
  void* data_ = nullptr;
};

}  // namespace thimble::base
