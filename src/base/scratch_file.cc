#include "base/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace thimble::base {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

tl::unexpected<Error> scratch_error(const Path& folder, std::string_view verb) {
  return fail(ErrorCode::kIo, "cannot {} a temporary file in {}: {}", verb, folder.string(),
              std::strerror(errno));
}

}  // namespace

Result<ScratchFile> ScratchFile::create(const Path& folder) {
  std::string name = (folder / ".thimble-XXXXXX").string();
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return scratch_error(folder, "create");
  ::unlink(name.c_str());
  return ScratchFile(folder, fd);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      size_(std::exchange(other.size_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

ScratchFile& ScratchFile::operator=(ScratchFile&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  std::swap(size_, other.size_);
  std::swap(data_, other.data_);
  return *this;
}

ScratchFile::~ScratchFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

Result<void> ScratchFile::append(Bytes bytes) {
  CHECK(data_ == nullptr);
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return buffer_.size() < kBufferBytes ? Result<void>() : flush();
}

Result<void> ScratchFile::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t put = ::write(fd_, left.data(), left.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return scratch_error(folder_, "write");
    left.remove_prefix(static_cast<size_t>(put));
  }
  size_ += buffer_.size();
  buffer_.clear();
  return {};
}

Result<Bytes> ScratchFile::map() {
  CHECK(data_ == nullptr);
  THIMBLE_TRY(flush());
  buffer_.shrink_to_fit();
  if (size_ == 0) return Bytes();
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return scratch_error(folder_, "map");
  data_ = data;
  return Bytes(static_cast<const std::byte*>(data_), size_);
}

}  // namespace thimble::base
