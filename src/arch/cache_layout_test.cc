// Aim: bytes of the cache, to the byte. Method: the released model's published figures, and a sum
// over every number of tokens against the closed formula of backbone spec section 7.4.
#include "arch/cache_layout.h"

#include <gtest/gtest.h>

#include "tests/golden/golden.h"

namespace thimble::arch {
namespace {

const Config& released() { return released_config(); }

TEST(CacheLayout, ReleasedBlock) {
  const CacheLayout layout = make_cache_layout(released(), CacheFormat::kPacked);
  EXPECT_EQ(layout.block_bytes, 113'920u);
  EXPECT_EQ(global_bytes_per_token(layout), 890.0);
  EXPECT_EQ(layout.window_row_bytes, 528u);
  EXPECT_EQ(layout.window_layers, 40u);
  ASSERT_EQ(layout.owners.size(), 4u);
  uint64_t end = 0;
  for (const OwnerLayout& owner : layout.owners) {
    EXPECT_EQ(owner.main_row_bytes, 288u);
    EXPECT_EQ(owner.index_row_bytes, 68u);
    EXPECT_EQ(owner.main_scale_bytes, 32u);
    EXPECT_EQ(owner.index_scale_bytes, 4u);
    EXPECT_EQ(owner.entries_per_block, owner.layer == 20 ? 128u : 64u);
    EXPECT_EQ(owner.entries_per_block % kTileEntries, 0u);
    EXPECT_EQ(owner.main_offset_bytes, end);
    EXPECT_EQ(owner.index_offset_bytes, end + owner.entries_per_block * 288u);
    end = owner.index_offset_bytes + owner.entries_per_block * 68u;
  }
  EXPECT_EQ(end, layout.block_bytes);
}

TEST(CacheLayout, RowsAndReservationsForEveryLength) {
  const CacheLayout layout = make_cache_layout(released(), CacheFormat::kPacked);
  for (uint64_t tokens = 0; tokens <= 1000; ++tokens) {
    ASSERT_EQ(layout.rows_bytes(tokens), (3 * (tokens / 2) + tokens) * 356) << tokens;
    ASSERT_EQ(layout.reserved_bytes(tokens), (tokens + 127) / 128 * 113'920) << tokens;
  }
  EXPECT_EQ(layout.rows_bytes(1'048'576), 1'048'576u * 890);
}

TEST(CacheLayout, ReleasedSequence) {
  const CacheLayout layout = make_cache_layout(released(), CacheFormat::kPacked);
  const SequenceBytes bytes = sequence_bytes(released(), layout);
  EXPECT_EQ(bytes.windows, 2'703'360u);
  EXPECT_EQ(bytes.half_pairs, 12'288u);
  EXPECT_EQ(bytes.engram_history, 12u);
}

TEST(CacheLayout, FloatRowsTakeFourBytesAValue) {
  const CacheLayout layout = make_cache_layout(released(), CacheFormat::kFloat);
  EXPECT_EQ(layout.window_row_bytes, 2048u);
  EXPECT_EQ(layout.owners[0].main_row_bytes, 2048u);
  EXPECT_EQ(layout.owners[0].index_row_bytes, 512u);
  EXPECT_EQ(layout.block_bytes, (3u * 64 + 128) * 2560);
}

TEST(CacheLayout, TinyAndWindowOnlyModels) {
  const auto t1 = load_config(golden::path("t1_mini/model/config.json"));
  ASSERT_TRUE(t1);
  const CacheLayout layout = make_cache_layout(*t1, CacheFormat::kPacked);
  ASSERT_EQ(layout.owners.size(), 3u);
  EXPECT_EQ(layout.owners[2].main_row_bytes, 32u + 4);   // head_dim 64
  EXPECT_EQ(layout.owners[2].index_row_bytes, 16u + 1);  // index_head_dim 32
  EXPECT_EQ(layout.rows_bytes(5), (2u + 2 + 5) * 53);

  Config window_only = *t1;
  window_only.compress_ratios.assign(10, 0);
  window_only.kv_source_layer_ids.clear();
  window_only.index_source_layer_ids.clear();
  window_only.candidate_source_layer_id.reset();
  ASSERT_TRUE(validate(window_only));
  const CacheLayout none = make_cache_layout(window_only, CacheFormat::kPacked);
  EXPECT_EQ(none.block_bytes, 0u);
  EXPECT_EQ(none.rows_bytes(100), 0u);
  EXPECT_EQ(sequence_bytes(window_only, none).half_pairs, 0u);
}

}  // namespace
}  // namespace thimble::arch
