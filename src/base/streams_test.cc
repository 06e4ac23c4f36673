// Aim: what does not fit in memory is read piece by piece and kept in a file without a name.
// Method: pieces of texts whose delimiters fall on every place of a read; a scratch file read back.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "base/piece_reader.h"
#include "base/scratch_file.h"

namespace thimble::base {
namespace {

std::vector<std::string> pieces_of(const Path& path, const std::string& delimiter) {
  auto reader = *PieceReader::open(path, delimiter);
  std::vector<std::string> out;
  for (;;) {
    const auto piece = reader.next();
    EXPECT_TRUE(piece) << piece.error().message;
    if (!piece || !*piece) return out;
    out.emplace_back(**piece);
  }
}

TEST(PieceReader, SplitsAtEveryDelimiter) {
  const TempDir dir;
  const Path path = dir.path() / "text";
  using List = std::vector<std::string>;
  const auto split = [&](std::string_view text, const std::string& delimiter) {
    EXPECT_TRUE(write_file_atomic(path, text));
    return pieces_of(path, delimiter);
  };
  EXPECT_EQ(split("", "\n"), List());
  EXPECT_EQ(split("a", "\n"), List({"a"}));
  EXPECT_EQ(split("a\nb\n", "\n"), List({"a", "b"}));
  EXPECT_EQ(split("\n\na", "\n"), List({"", "", "a"}));
  EXPECT_EQ(split("a\n\nb\nc\n\n\nd", "\n\n"), List({"a", "b\nc", "\nd"}));
  EXPECT_EQ(split("a\nb\n", ""), List({"a\nb\n"}));
}

// A read is a megabyte: the delimiter lies before, across and behind the border of the first one.
TEST(PieceReader, FindsADelimiterAcrossTwoReads) {
  const TempDir dir;
  const Path path = dir.path() / "text";
  for (size_t length = (1 << 20) - 3; length <= (1 << 20) + 1; ++length) {
    const std::string first(length, 'a');
    const std::string second((3 << 20) + 5, 'b');
    ASSERT_TRUE(write_file_atomic(path, first + "\n\n" + second));
    EXPECT_EQ(pieces_of(path, "\n\n"), std::vector<std::string>({first, second})) << length;
  }
}

TEST(PieceReader, ReadsAFifo) {
  const TempDir dir;
  const Path path = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { EXPECT_TRUE(write_file_atomic(path, "one\ntwo")); });
  EXPECT_EQ(pieces_of(path, "\n"), std::vector<std::string>({"one", "two"}));
  writer.join();
}

TEST(PieceReader, SaysWhatIsWrong) {
  const TempDir dir;
  const Path path = dir.path() / "text";
  EXPECT_EQ(PieceReader::open(path, "\n").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(PieceReader::open(dir.path(), "\n")->next().error().code, ErrorCode::kIo);
  ASSERT_TRUE(write_file_atomic(path, "12345\n123456\n"));
  auto reader = *PieceReader::open(path, "\n", 5);
  EXPECT_EQ(**reader.next(), "12345");
  EXPECT_EQ(reader.next().error().code, ErrorCode::kResourceExhausted);
}

TEST(ScratchFile, GivesBackWhatWasAppended) {
  const TempDir dir;
  auto file = *ScratchFile::create(dir.path());
  std::vector<uint32_t> numbers(1'000'003);
  std::iota(numbers.begin(), numbers.end(), 0u);
  for (size_t at = 0; at < numbers.size();) {
    const size_t count = std::min<size_t>(1 + at % 977, numbers.size() - at);
    ASSERT_TRUE(file.append(std::as_bytes(std::span(numbers).subspan(at, count))));
    at += count;
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));  // it has no name
  ScratchFile moved = std::move(file);
  const MappedFile mapped = *std::move(moved).map();
  const Bytes written = mapped.bytes();
  ASSERT_EQ(written.size(), 4 * numbers.size());
  EXPECT_EQ(std::memcmp(written.data(), numbers.data(), written.size()), 0);
}

TEST(ScratchFile, MayBeEmptyAndNeedsAFolder) {
  const TempDir dir;
  EXPECT_TRUE(std::move(*ScratchFile::create(dir.path())).map()->bytes().empty());
  EXPECT_EQ(ScratchFile::create(dir.path() / "none").error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace thimble::base
