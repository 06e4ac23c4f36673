// Aim: cached rows and tiles have the bytes of paged_rows.h and come back exactly as rounded.
// Method: bytes of a known row; rows and tiles against the quantisers of numeric/; neighbours in a
// tile stay; all tables decode alike, NaN scales included.
#include <gtest/gtest.h>

#include "kernels/internal/test_support.h"
#include "numeric/block_fp8.h"
#include "numeric/kv_fp4.h"
#include "numeric/mxfp4.h"

namespace thimble::kernels {
namespace {

using test::same_bits;

std::vector<float> ramp() {
  std::vector<float> x;
  for (int i = 0; i < 32; ++i) {
    x.push_back(numeric::round_bf16(static_cast<float>((i - 15.5) * 0.37)));
  }
  return x;
}

std::vector<int> bytes_of(const std::vector<std::byte>& row) {
  std::vector<int> out;
  for (std::byte b : row) out.push_back(static_cast<int>(b));
  return out;
}

// Spec 10.1, laid out as rows.
TEST(CachedRows, KnownBytes) {
  std::vector<std::byte> row(16 + 2);
  write_row(RowFormat::kMainFp4, ramp(), row.data());
  EXPECT_EQ(bytes_of(row),
            (std::vector<int>{0xff, 0xef, 0xee, 0xde, 0xdd, 0xcc, 0xab, 0x89, 0x10, 0x32, 0x44,
                              0x55, 0x65, 0x66, 0x76, 0x77, 0x37, 0x37}));
  row.assign(33, std::byte{0});
  write_row(RowFormat::kWindowFp8, ramp(), row.data());
  EXPECT_EQ(bytes_of(row)[0], 0xfc);
  EXPECT_EQ(bytes_of(row)[31], 0x7c);
  EXPECT_EQ(bytes_of(row)[32], 121);
}

// F12: the 68 bytes an entry takes, at the released width: 8 code bytes a dimension shared by 16
// entries, then a scale an entry and group.
TEST(CachedRows, KnownTileBytes) {
  std::vector<std::byte> tile(16 * 68);
  std::vector<float> x;
  for (int g = 0; g < 4; ++g) {
    for (float v : ramp()) x.push_back(v * static_cast<float>(1 << g));
  }
  write_tile_entry(TileFormat::kMxfp4, x, tile.data(), 5);
  const int codes[] = {0xf, 0xf, 0xe, 0xe, 0xe, 0xe, 0xe, 0xd, 0xd, 0xc, 0xc,
                       0xb, 0xb, 0xa, 0x9, 0x8, 0,   1,   2,   3,   3,   4,
                       4,   5,   5,   6,   6,   6,   6,   6,   7,   7};
  for (size_t i = 0; i < tile.size(); ++i) {
    int expected = 0;
    if (i < 1024 && i % 8 == 2) expected = codes[i / 8 % 32] << 4;
    if (i >= 1024 && i % 16 == 5) expected = 127 + static_cast<int>(i - 1024) / 16;
    EXPECT_EQ(static_cast<int>(tile[i]), expected) << i;
  }
}

TEST(CachedRows, ReadBackAsRounded) {
  base::SplitMix64 random(1);
  for (uint32_t dims : {32, 64, 512}) {
    const std::vector<float> x = test::awkward_floats(random, dims);
    auto expect = [&](RowFormat format, const std::vector<float>& rounded) {
      std::vector<std::byte> row(4 * dims + 1, std::byte{0xAA});
      write_row(format, x, row.data() + 1);
      test::with_each_table([&] {
        std::vector<float> back(dims);
        read_row(format, row.data() + 1, back);
        EXPECT_TRUE(same_bits(back, rounded)) << dims;
      });
    };
    expect(RowFormat::kFloat, x);
    std::vector<float> y = x;
    numeric::round_fp8(y.data(), dims);
    expect(RowFormat::kWindowFp8, y);
    y = x;
    numeric::round_kv_fp4(y.data(), dims);
    expect(RowFormat::kMainFp4, y);
  }
}

TEST(CachedRows, TileEntriesAreIndependent) {
  base::SplitMix64 random(2);
  for (TileFormat format : {TileFormat::kFloat, TileFormat::kMxfp4}) {
    std::vector<std::byte> tile = test::random_bytes(random, 64 * 64);
    std::vector<std::vector<float>> expected(16);
    for (uint32_t slot : {3, 2, 15, 0, 1, 7, 3, 14, 5, 4, 6, 8, 9, 10, 11, 12, 13, 2}) {
      std::vector<float> x = test::awkward_floats(random, 64);
      write_tile_entry(format, x, tile.data(), slot);
      if (format == TileFormat::kMxfp4) round_mxfp4(x);
      expected[slot] = x;
    }
    for (uint32_t slot = 0; slot < 16; ++slot) {
      std::vector<float> back(64);
      read_tile_entry(format, tile.data(), slot, back);
      EXPECT_TRUE(same_bits(back, expected[slot])) << slot;
    }
    test::with_each_table([&] {
      std::vector<float> all(64 * 16);
      kernels().decode_tile(format, tile.data(), 64, all.data());
      for (uint32_t slot = 0; slot < 16; ++slot) {
        for (uint32_t d = 0; d < 64; ++d) {
          ASSERT_TRUE(same_bits(all[d * 16 + slot], expected[slot][d]));
        }
      }
    });
  }
}

// Any byte may come from a disk page: every code with every scale decodes alike on all tables.
TEST(CachedRows, EveryScaleByte) {
  base::SplitMix64 random(3);
  for (uint32_t scale = 0; scale < 256; ++scale) {
    std::vector<std::byte> row = test::random_bytes(random, 64 * 8 + 2 * 16);
    for (size_t i = 64; i < row.size(); ++i)
      row[i] = i % 3 ? row[i] : static_cast<std::byte>(scale);
    std::vector<std::vector<float>> outs;
    for (const Table* table : test::tables()) {
      std::vector<float> out(64 * 3 + 64 * 16);
      table->decode_row(RowFormat::kWindowFp8, row.data(), 64, out.data());
      table->decode_row(RowFormat::kMainFp4, row.data(), 64, out.data() + 64);
      table->decode_tile(TileFormat::kMxfp4, row.data(), 64, out.data() + 192);
      outs.push_back(out);
    }
    for (const auto& out : outs) ASSERT_TRUE(same_bits(out, outs.back())) << scale;
  }
}

}  // namespace
}  // namespace thimble::kernels
