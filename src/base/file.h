// Files: read whole, written atomically, or mapped read-only.
//
// Every call returns the system's reason with the path. Not a virtual file system yet: tests use
// temporary directories.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace thimble::base {

using Path = std::filesystem::path;

// Whole content; refuses files of more than `max_bytes`.
Result<std::string> read_file(const Path& path, uint64_t max_bytes = 1ULL << 30);

// Writes to a temporary sibling, syncs, renames: the old file or the new one, never half of it.
Result<void> write_file_atomic(const Path& path, std::string_view content);

// A whole file mapped read-only. Movable; unmaps when destroyed. Safe to read from any thread.
class MappedFile {
 public:
  static Result<MappedFile> open(const Path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  Bytes bytes() const { return {data_, size_}; }
  const Path& path() const { return path_; }

 private:
  MappedFile(Path path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  Path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A directory that is removed with all its content when the object goes. For tests and tools.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

}  // namespace thimble::base

namespace thimble {
using base::Path;
}  // namespace thimble
