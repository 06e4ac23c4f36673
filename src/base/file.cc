#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"

namespace thimble::base {
namespace {

Result<uint64_t> regular_size(int fd, const Path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, "{} is not a regular file", path.string());
  }
  return static_cast<uint64_t>(info.st_size);
}

// What `path` names, links followed: one of S_IFMT's values, or nothing if it does not exist.
Result<std::optional<mode_t>> type_of(const Path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return info.st_mode & S_IFMT;
  if (errno == ENOENT) return std::nullopt;
  return system_error(path, "stat");
}

// The path at the end of a chain of links, which need not exist yet.
Result<Path> behind_links(Path path) {
  constexpr int kLinksMax = 40;  // as many as Linux follows
  std::error_code ignored;
  for (int links = 0; std::filesystem::is_symlink(path, ignored); ++links) {
    std::error_code error;
    const Path next = std::filesystem::read_symlink(path, error);
    if (error || links == kLinksMax) {
      return fail(ErrorCode::kIo, "cannot follow the link {}", path.string());
    }
    path = path.parent_path() / next;  // an absolute one replaces all
  }
  return path;
}

}  // namespace

tl::unexpected<Error> system_error(const Path& path, std::string_view verb) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return fail(code, "cannot {} {}: {}", verb, path.string(), std::strerror(errno));
}

Result<std::string> read_file(const Path& path, uint64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return system_error(path, "open");
  const uint64_t size = THIMBLE_TRY(regular_size(file.get(), path));
  if (size > max_bytes) {
    return fail(ErrorCode::kCorrupt, "{} has {} bytes; at most {} are accepted here", path.string(),
                size, max_bytes);
  }
  std::string content(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), content.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path, "read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

Result<FileWriter> FileWriter::open(const Path& path) {
  const std::optional<mode_t> type = THIMBLE_TRY(type_of(path));
  if (type == S_IFCHR || type == S_IFIFO) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.is_open()) return system_error(path, "open");
    return FileWriter(path, {}, std::move(file));
  }
  if (type == S_IFDIR) {
    return fail(ErrorCode::kInvalidArgument, "{} is a directory", path.string());
  }
  if (type && type != S_IFREG) {
    return fail(ErrorCode::kInvalidArgument, "{} is neither a file, a FIFO nor a character device",
                path.string());
  }
  Path target = THIMBLE_TRY(behind_links(path));
  Path temporary = target;
  temporary += fmt::format(".{}.tmp", ::getpid());
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open()) return system_error(temporary, "create");
  return FileWriter(std::move(target), std::move(temporary), std::move(file));
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)) {}

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(target_, other.target_);
  std::swap(temporary_, other.temporary_);
  std::swap(file_, other.file_);
  return *this;
}

FileWriter::~FileWriter() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> FileWriter::write(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error(written(), "write");
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

Result<void> FileWriter::commit() {
  CHECK(file_.is_open());
  if (!temporary_.empty()) {
    if (::fsync(file_.get()) != 0) return system_error(temporary_, "sync");
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      return system_error(target_, "replace");
    }
    temporary_.clear();
  }
  if (::close(file_.release()) != 0) return system_error(target_, "close");
  return {};
}

Result<void> write_file_atomic(const Path& path, std::string_view content) {
  FileWriter file = THIMBLE_TRY(FileWriter::open(path));
  THIMBLE_TRY(file.write(std::as_bytes(std::span(content))));
  return file.commit();
}

Result<MappedFile> MappedFile::open(const Path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return system_error(path, "open");
  return map(file, path);
}

Result<MappedFile> MappedFile::map(const Descriptor& file, const Path& path) {
  const uint64_t size = THIMBLE_TRY(regular_size(file.get(), path));
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
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

void forget_mapped(Bytes bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (first + page - 1) / page * page;
  const uintptr_t end = (first + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace thimble::base
