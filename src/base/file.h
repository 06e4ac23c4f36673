// Files: read whole, written atomically, or mapped read-only.
//
// Every call returns the system's reason with the path. Not a virtual file system yet: tests use
// temporary directories.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/result.h"

namespace thimble::base {

using Path = std::filesystem::path;

// "cannot open PATH: reason", of errno; kNotFound where nothing is there, else kIo.
tl::unexpected<Error> system_error(const Path& path, std::string_view verb);

// Whole content; refuses files of more than `max_bytes`.
Result<std::string> read_file(const Path& path, uint64_t max_bytes = 1ULL << 30);

// A file being written. A regular or new file is replaced by commit(): until then the content is in
// a temporary sibling, which vanishes without it, so there is the old file or the new one and never
// half of it. Links are followed and stay. Character devices and FIFOs are never replaced: they get
// the bytes as they come. Directories and all else are refused. Movable; not thread-safe.
class FileWriter {
 public:
  static Result<FileWriter> open(const Path& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  ~FileWriter();

  Result<void> write(Bytes bytes);
  Result<void> commit();  // once; nothing is written after it

 private:
  FileWriter(Path target, Path temporary, Descriptor file)
      : target_(std::move(target)), temporary_(std::move(temporary)), file_(std::move(file)) {}
  const Path& written() const { return temporary_.empty() ? target_ : temporary_; }
  Path target_;
  Path temporary_;  // empty: writes go straight to the target
  Descriptor file_;
};

// All of it through a FileWriter.
Result<void> write_file_atomic(const Path& path, std::string_view content);

// A whole file mapped read-only. Movable; unmaps when destroyed. Safe to read from any thread.
class MappedFile {
 public:
  static Result<MappedFile> open(const Path& path);
  // One that is open already; `path` is for errors.
  static Result<MappedFile> map(const Descriptor& file, const Path& path);
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

// Gives up the pages of a mapped file that lie wholly within `bytes`: they are read again when they
// are needed.
void forget_mapped(Bytes bytes);

}  // namespace thimble::base

namespace thimble {
using base::Path;
}  // namespace thimble
