// Aim: the small things every module leans on. Method: direct calls on temporary files and a pool.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/huge_memory.h"
#include "base/parse_bytes.h"
#include "base/random.h"
#include "base/result.h"
#include "base/terminal.h"
#include "base/thread_pool.h"

namespace thimble::base {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  const int once = THIMBLE_TRY(in(half(value), "first half"));
  return in(half(once), "second half");
}

TEST(Result, CarriesStepsOutward) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(3).error().describe(), "first half: 3 is odd");
  EXPECT_EQ(quarter(6).error().describe(), "second half: 3 is odd");
}

TEST(CheckDeathTest, PrintsBothSides) { EXPECT_DEATH(CHECK_EQ(1 + 1, 3), "2 vs 3"); }

TEST(File, AtomicWriteThenReadAndMap) {
  const TempDir dir;
  const Path path = dir.path() / "a";
  ASSERT_TRUE(write_file_atomic(path, "one"));
  ASSERT_TRUE(write_file_atomic(path, "two!"));
  EXPECT_EQ(*read_file(path), "two!");
  EXPECT_EQ(read_file(path, 3).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read_file(dir.path() / "none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_file(dir.path()).error().code, ErrorCode::kInvalidArgument);
  auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->bytes().size(), 4u);
  MappedFile moved = std::move(*mapped);
  EXPECT_EQ(std::to_integer<char>(moved.bytes()[3]), '!');
}

// A FIFO stands for every special file: it is written through, not replaced.
TEST(File, SpecialFilesAreWrittenThrough) {
  const TempDir dir;
  const Path fifo = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(write_file_atomic(fifo, "through"));
  std::array<char, 16> got{};
  EXPECT_EQ(::read(reader, got.data(), got.size()), 7);
  EXPECT_STREQ(got.data(), "through");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
}

TEST(File, LinksStayAndDirectoriesAreRefused) {
  const TempDir dir;
  const Path link = dir.path() / "link";
  const Path below = dir.path() / "below";
  std::filesystem::create_directory(below);
  std::filesystem::create_symlink("below/file", link);
  for (const char* content : {"made", "replaced"}) {  // the link dangles at first
    ASSERT_TRUE(write_file_atomic(link, content));
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(*read_file(below / "file"), content);
  }
  std::filesystem::create_symlink("loop", dir.path() / "loop");
  EXPECT_FALSE(write_file_atomic(dir.path() / "loop", "x"));
  EXPECT_EQ(write_file_atomic(below, "x").error().message, below.string() + " is a directory");
}

TEST(File, WithoutACommitTheOldFileStaysAlone) {
  const TempDir dir;
  const Path path = dir.path() / "a";
  ASSERT_TRUE(write_file_atomic(path, "old"));
  {
    auto writer = FileWriter::open(path);
    ASSERT_TRUE(writer);
    EXPECT_TRUE(writer->write(std::as_bytes(std::span(std::string_view("new")))));
  }
  EXPECT_EQ(*read_file(path), "old");
  const std::filesystem::directory_iterator files(dir.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(Bytes, ForPeople) {
  EXPECT_EQ(human_bytes(890), "890 B");
  EXPECT_EQ(human_bytes(113'920), "111.25 KiB");
  EXPECT_EQ(with_commas(510286023000), "510,286,023,000");
  EXPECT_EQ(with_commas(12), "12");
  EXPECT_EQ(counted(0, "mismatch", "mismatches"), "0 mismatches");
  EXPECT_EQ(counted(1, "mismatch", "mismatches"), "1 mismatch");
  EXPECT_EQ(counted(1200, "mismatch", "mismatches"), "1,200 mismatches");
}

TEST(ParseBytes, TakesWholeNumbersWithAndWithoutAUnit) {
  EXPECT_EQ(*parse_bytes("1000000"), 1'000'000u);
  EXPECT_EQ(*parse_bytes("0"), 0u);
  EXPECT_EQ(*parse_bytes("7B"), 7u);
  EXPECT_EQ(*parse_bytes("512MB"), 512'000'000u);
  EXPECT_EQ(*parse_bytes("8GiB"), 8ULL << 30);
  EXPECT_EQ(*parse_bytes("3kb"), 3'000u);
  EXPECT_EQ(*parse_bytes("2tib"), 2ULL << 40);
  EXPECT_EQ(*parse_bytes("18446744073709551615"), UINT64_MAX);
}

TEST(ParseBytes, RefusesTheRestAndSaysWhatWouldDo) {
  for (const char* text : {"", "GiB", "8G", "8 GiB", "1.5GiB", "-1", "+1", "8GiBx", "0x10",
                           "18446744073709551616", "17179869184GiB"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.has_value()) << text;
    EXPECT_EQ(bytes.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(bytes.error().message.find("as in 8GiB"), std::string::npos);
  }
}

TEST(Terminal, EscapesNamesOutOfFiles) {
  EXPECT_EQ(printable("layers.0"), "layers.0");
  EXPECT_EQ(printable("\x1b[2J\n"), "\\x1b[2J\\x0a");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(ThreadPool, RunsEachTaskOnce) {
  for (const uint32_t threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    for (uint64_t count = 0; count < 200; ++count) {
      std::vector<std::atomic<int>> hits(count);
      pool.parallel_for(count, [&](uint64_t i, uint32_t worker) {
        ASSERT_LT(worker, threads);
        hits[i].fetch_add(1);
      });
      for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1);
    }
  }
}

// Tasks of very different length: runs change hands all the time.
TEST(ThreadPool, RunsEachTaskOnceHoweverLongItTakes) {
  ThreadPool pool(4);
  for (uint64_t round = 0; round < 200; ++round) {
    const uint64_t count = 1 + round * 17 % 701;
    std::vector<std::atomic<int>> hits(count);
    std::atomic<uint64_t> work{0};
    pool.parallel_for(count, [&](uint64_t i, uint32_t) {
      const uint64_t turns = (i * 2654435761u + round) % 16 == 0 ? 4000 : 10;
      for (uint64_t t = 0; t < turns; ++t) work.fetch_add(1, std::memory_order_relaxed);
      hits[i].fetch_add(1);
    });
    for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1);
  }
}

// Whoever has nothing left takes over the run of a worker that is long at its first task, whose
// own tasks come in order.
TEST(ThreadPool, AnotherTakesOverAndRunsAreInOrder) {
  ThreadPool pool(2);
  constexpr uint64_t kTasks = 64;
  std::atomic<uint64_t> others{0};
  std::vector<uint64_t> order;  // of worker 0
  const int64_t begun = monotonic_us();
  pool.parallel_for(kTasks, [&](uint64_t i, uint32_t worker) {
    if (worker == 0) order.push_back(i);
    if (i != 0) {
      others.fetch_add(1);
      return;
    }
    while (others.load() < kTasks - 1 && monotonic_us() - begun < 20'000'000) {
      std::this_thread::yield();
    }
    EXPECT_EQ(others.load(), kTasks - 1);
  });
  EXPECT_EQ(order, std::vector<uint64_t>{0});
  ThreadPool alone(1);
  order.clear();
  alone.parallel_for(5, [&](uint64_t i, uint32_t) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
}

TEST(HugeMemory, IsZeroedAlignedAndMovable) {
  for (const uint64_t bytes : {1ULL, 4096ULL, 5000ULL, 2ULL << 20, (5ULL << 20) + 1}) {
    auto memory = *HugeMemory::create(bytes, "a test");
    ASSERT_EQ(memory.size(), bytes);
    for (const std::byte b : memory.bytes()) ASSERT_EQ(b, std::byte{0});
    std::memset(memory.data(), 1, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % (2 << 20), 0u);
    HugeMemory other = std::move(memory);
    EXPECT_EQ(memory.data(), nullptr);
    EXPECT_EQ(other.data()[bytes - 1], std::byte{1});
  }
  EXPECT_EQ(HugeMemory::create(0, "nothing")->size(), 0u);
  EXPECT_EQ(HugeMemory::create(1ULL << 62, "all").error().code, ErrorCode::kResourceExhausted);
}

TEST(Random, CounterStreamsDiffer) {
  EXPECT_NE(counter_uniform(1, 2, 3), counter_uniform(1, 2, 4));
  EXPECT_NE(counter_uniform(1, 2, 3), counter_uniform(1, 3, 3));
  EXPECT_EQ(counter_uniform(1, 2, 3), counter_uniform(1, 2, 3));
  double sum = 0;
  for (uint64_t i = 0; i < 10'000; ++i) sum += counter_uniform(7, 0, i);
  EXPECT_NEAR(sum / 10'000, 0.5, 0.01);
}

}  // namespace
}  // namespace thimble::base
