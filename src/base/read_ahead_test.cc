// Aim: pages that are not in memory are counted and come without being touched. Method: a file on
// disk, thrown out of the page cache, asked for, looked at again.
#include "base/read_ahead.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

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

// Without asking for anything.
PageCount residency(Bytes bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> seen((bytes.size() + page - 1) / page);
  auto* const begin = const_cast<std::byte*>(bytes.data());
  PageCount count = {.pages = seen.size()};
  if (::mincore(begin, bytes.size(), seen.data()) != 0) return count;
  for (const unsigned char one : seen) count.resident += one & 1U;
  return count;
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
    later = residency(file.bytes());
  }
  EXPECT_EQ(later.resident, pages);
}

// To a user who neither owns the file nor may write it, every page seems resident.
TEST(ReadAhead, BringsPagesOfFilesThatOthersOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const TempDir dir;
  const Path path = dir.path() / "file";
  std::filesystem::permissions(dir.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  ASSERT_TRUE(write_file_atomic(path, std::string(3 << 20, 'x')));
  EXPECT_TRUE(tells_residency(path));
  evict(path);
  const auto file = *MappedFile::open(path);
  const PageCount before = residency(file.bytes());
  if (before.resident == before.pages) GTEST_SKIP() << "a file system that keeps everything";
  const auto ask_as_nobody = [&] {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) return 3;
    const PageCount count = read_ahead(file.bytes());
    return tells_residency(path) ? 2 : count.resident == count.pages ? 0 : 1;
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(ask_as_nobody());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 1) GTEST_SKIP() << "a system that tells everybody";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  PageCount later;
  for (int tries = 0; tries < 500; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    later = residency(file.bytes());
    if (later.resident == later.pages) break;
  }
  EXPECT_EQ(later.resident, later.pages);
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
