// Aim: the least of all limits is found and named: the system's, each control group's up to the
// mount point, the process's own. Method: file trees as the kernel shows them, written below a
// temporary root; setrlimit in a child process for the last.
#include "base/available_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

namespace thimble::base {
namespace {

class MemoryTest : public testing::Test {
 protected:
  void write(const Path& file, const std::string& content) {
    std::filesystem::create_directories((root.path() / file).parent_path());
    ASSERT_TRUE(base::write_file_atomic(root.path() / file, content).has_value());
  }
  void SetUp() override {
    write("proc/meminfo", "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:   5000 kB\n");
  }
  AvailableMemory read() { return available_memory(root.path()); }

  base::TempDir root;
};

TEST_F(MemoryTest, SystemAlone) {
  EXPECT_EQ(read().bytes, 5000u * 1024);
  EXPECT_EQ(read().limited_by, "MemAvailable");
}

TEST_F(MemoryTest, GroupOfVersion2AndItsAncestors) {
  write("proc/self/cgroup", "0::/user.slice/job\n");
  write("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  write("sys/fs/cgroup/user.slice/job/memory.current", "100000\n");
  EXPECT_EQ(read().limited_by, "MemAvailable");

  write("sys/fs/cgroup/user.slice/memory.max", "3000000\n");
  write("sys/fs/cgroup/user.slice/memory.current", "1000000\n");
  EXPECT_EQ(read().bytes, 2'000'000u);
  EXPECT_EQ(read().limited_by, "cgroup /user.slice");

  write("sys/fs/cgroup/user.slice/memory.stat", "anon 5\ninactive_file 400000\n");
  EXPECT_EQ(read().bytes, 2'400'000u);

  write("sys/fs/cgroup/user.slice/job/memory.max", "150000\n");
  EXPECT_EQ(read().bytes, 50'000u);
  EXPECT_EQ(read().limited_by, "cgroup /user.slice/job");
}

// A container sees its group as the root of the tree.
TEST_F(MemoryTest, GroupAtTheMountPoint) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1000000\n");
  write("sys/fs/cgroup/memory.current", "2000000\n");
  EXPECT_EQ(read().bytes, 0u);
  EXPECT_EQ(read().limited_by, "cgroup /");
}

TEST_F(MemoryTest, GroupOfVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "4000000\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1500000\n");
  write("sys/fs/cgroup/memory/docker/abc/memory.stat", "total_inactive_file 500000\n");
  EXPECT_EQ(read().bytes, 3'000'000u);
  EXPECT_EQ(read().limited_by, "cgroup /docker/abc");
  write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read().limited_by, "MemAvailable");
}

TEST_F(MemoryTest, UnreadableFilesAreNoLimit) {
  write("proc/self/cgroup", "nonsense\n0:\n");
  write("proc/meminfo", "MemAvailable: lots\n");
  EXPECT_EQ(read().limited_by, "nothing");
}

TEST_F(MemoryTest, ProcessLimit) {
  constexpr uint64_t kLimit = 1ULL << 50;  // far from anything this test itself needs
  write("proc/meminfo", "MemAvailable:   9007199254740992 kB\n");
  write("proc/self/status", "VmSize:  1000 kB\nVmData:  10 kB\n");
  const auto limited = [this] {
    const rlimit limit{kLimit, kLimit};
    ::setrlimit(RLIMIT_DATA, &limit);
    const AvailableMemory memory = read();
    const bool right = memory.bytes == kLimit - 10 * 1024 && memory.limited_by == "RLIMIT_DATA";
    std::_Exit(right ? 0 : 1);
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(0), "");
}

TEST(Memory, ThisMachineHasSome) {
  const AvailableMemory memory = available_memory();
  EXPECT_GT(memory.bytes, 1u << 20);
  EXPECT_LT(memory.bytes, 1ULL << 50) << memory.limited_by;
}

}  // namespace
}  // namespace thimble::base
