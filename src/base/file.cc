#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace thimble::base {
namespace {

tl::unexpected<Error> system_error(const Path& path, std::string_view verb) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return fail(code, "cannot {} {}: {}", verb, path.string(), std::strerror(errno));
}

// Closes on scope exit; -1 means nothing to close.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Result<uint64_t> regular_size(int fd, const Path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, "{} is not a regular file", path.string());
  }
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace

Result<std::string> read_file(const Path& path, uint64_t max_bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return system_error(path, "open");
  const uint64_t size = THIMBLE_TRY(regular_size(file.fd, path));
  if (size > max_bytes) {
    return fail(ErrorCode::kCorrupt, "{} has {} bytes; at most {} are accepted here", path.string(),
                size, max_bytes);
  }
  std::string content(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.fd, content.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path, "read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

Result<void> write_file_atomic(const Path& path, std::string_view content) {
  Path temporary = path;
  temporary += fmt::format(".{}.tmp", ::getpid());
  const Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.fd < 0) return system_error(temporary, "create");
  while (!content.empty()) {
    const ssize_t put = ::write(file.fd, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      auto error = system_error(temporary, "write");
      ::unlink(temporary.c_str());
      return error;
    }
    content.remove_prefix(static_cast<size_t>(put));
  }
  if (::fsync(file.fd) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    auto error = system_error(path, "write");
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

Result<MappedFile> MappedFile::open(const Path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return system_error(path, "open");
  const uint64_t size = THIMBLE_TRY(regular_size(file.fd, path));
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return system_error(path, "map");
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "thimble-XXXXXX").string();
  CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace thimble::base
