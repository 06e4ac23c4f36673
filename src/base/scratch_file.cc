#include "base/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

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
  Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) return scratch_error(folder, "create");
  ::unlink(name.c_str());
  return ScratchFile(folder, std::move(file));
}

Result<void> ScratchFile::append(Bytes bytes) {
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return buffer_.size() < kBufferBytes ? Result<void>() : flush();
}

Result<void> ScratchFile::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t put = ::write(file_.get(), left.data(), left.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return scratch_error(folder_, "write");
    left.remove_prefix(static_cast<size_t>(put));
  }
  buffer_.clear();
  return {};
}

Result<MappedFile> ScratchFile::map() && {
  THIMBLE_TRY(flush());
  return MappedFile::map(file_, folder_);
}

}  // namespace thimble::base
