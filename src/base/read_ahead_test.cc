// Aim: pages that are not in memory are counted and come without being touched. Method: a file on
// disk, thrown out of the page cache, asked for, looked at again.
#include "base/read_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/file.h"

namespace thimble::base {
namespace {

// Writes it out and lets the system forget it.
void evict(const Path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::fsync(fd), 0);
  ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(fd);
}

TEST(ReadAhead, BringsWhatIsNotInMemory) {
  const TempDir dir;
  const Path path = dir.path() / "file";
  constexpr size_t kBytes = (5 << 20) + 17;
  const size_t pages = kBytes / static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + 1;
  ASSERT_TRUE(write_file_atomic(path, std::string(kBytes, 'x')));
  evict(path);
  const auto file = *MappedFile::open(path);
  const PageCount first = read_ahead(file.bytes());
  EXPECT_EQ(first.pages, pages);
  if (first.resident == pages) GTEST_SKIP() << "a file system that keeps everything in memory";
  PageCount later;
  for (int tries = 0; tries < 500 && later.resident < pages; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    later = read_ahead(file.bytes());
  }
  EXPECT_EQ(later.resident, pages);
}

TEST(ReadAhead, CountsWholePages) {
  const TempDir dir;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  ASSERT_TRUE(write_file_atomic(dir.path() / "file", std::string(3 * page, 'x')));
  const auto file = *MappedFile::open(dir.path() / "file");
  EXPECT_EQ(read_ahead({}).pages, 0u);
  EXPECT_EQ(read_ahead(file.bytes().subspan(page - 1, 1)).pages, 1u);
  EXPECT_EQ(read_ahead(file.bytes().subspan(page - 1, 2)).pages, 2u);
  EXPECT_EQ(read_ahead(file.bytes().subspan(page, page)).pages, 1u);
}

}  // namespace
}  // namespace thimble::base
