// Aim: weights that were laid out anew are not held twice: the pages they were made of go back to
// the file. Method: a matrix in a mapped file, whose pages in memory /proc/self/smaps counts.
#include "model/internal/packed_weights.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace thimble::model {
namespace {

// Resident bytes of the mapping that begins at `start`; empty where the system does not tell.
std::optional<uint64_t> resident_bytes(const std::byte* start) {
  std::ifstream file("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(start);
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    uintptr_t first = 0;
    char dash = 0;
    std::string name;
    uint64_t kilobytes = 0;
    if (words >> std::hex >> first >> dash && dash == '-') {
      inside = first == wanted;
    } else if (inside && std::istringstream(line) >> name >> kilobytes && name == "Rss:") {
      return 1024 * kilobytes;
    }
  }
  return std::nullopt;
}

TEST(PackedWeights, GiveTheirSourceBackToTheFile) {
  constexpr uint32_t kSide = 2048;
  constexpr uint64_t kCodes = uint64_t{kSide} * kSide;
  const base::TempDir dir;
  std::string content(kCodes + kCodes / 1024, '\x38');
  ASSERT_TRUE(base::write_file_atomic(dir.path() / "matrix", content));
  const auto file = *base::MappedFile::open(dir.path() / "matrix");
  const std::byte* const start = file.bytes().data();
  ModelWeights weights;
  WeightView& matrix = weights.layers.emplace_back().wq_a;
  matrix = {kernels::WeightFormat::kFp8Block32, start, start + kCodes, kSide, kSide};
  uint64_t sum = 0;  // touches every page
  for (const std::byte byte : file.bytes()) sum += static_cast<uint64_t>(byte);
  ASSERT_EQ(sum, content.size() * 0x38);
  if (!resident_bytes(start)) GTEST_SKIP() << "no /proc/self/smaps";
  EXPECT_GE(*resident_bytes(start), kCodes);
  base::ThreadPool pool(2);
  const auto none = PackedWeights::create(weights, Packing::kNone, pool);
  EXPECT_EQ(none->bytes(), 0u);
  EXPECT_GE(*resident_bytes(start), kCodes);
  const auto packed = PackedWeights::create(weights, Packing::kDense, pool);
  ASSERT_TRUE(packed.has_value());
  EXPECT_GE(packed->bytes(), kCodes);
  EXPECT_NE(matrix.packed, nullptr);
  EXPECT_LE(*resident_bytes(start), kCodes / 8);
}

}  // namespace
}  // namespace thimble::model
