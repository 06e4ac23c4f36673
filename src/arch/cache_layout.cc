#include "arch/cache_layout.h"

#include <algorithm>

#include "base/bytes.h"

namespace thimble::arch {
namespace {

constexpr uint32_t kMainGroup = 16;    // E4M3 scale of the main rows
constexpr uint32_t kIndexGroup = 32;   // E8M0 scale of the index rows
constexpr uint32_t kWindowGroup = 32;  // E8M0 scale of the window rows

uint32_t row_bytes(RowBytes packed, uint32_t width, CacheFormat format) {
  return format == CacheFormat::kFloat ? width * 4 : packed.total();
}

}  // namespace

RowBytes packed_main_row(uint32_t head_dim) { return {head_dim / 2, head_dim / kMainGroup}; }

RowBytes packed_index_row(uint32_t index_head_dim) {
  return {index_head_dim / 2, index_head_dim / kIndexGroup};
}

RowBytes packed_window_row(uint32_t head_dim) { return {head_dim, head_dim / kWindowGroup}; }

CacheLayout make_cache_layout(const Config& config, CacheFormat format) {
  CacheLayout layout;
  layout.format = format;
  const RowBytes main = packed_main_row(config.head_dim);
  const RowBytes index = packed_index_row(config.index_head_dim);
  layout.window_row_bytes = row_bytes(packed_window_row(config.head_dim), config.head_dim, format);
  layout.window_layers = config.num_hidden_layers;
  for (const Owner& owner : make_layer_plan(config).owners) {
    OwnerLayout rows;
    rows.layer = owner.layer;
    rows.ratio = owner.ratio;
    rows.entries_per_block = kBlockTokens / owner.ratio;
    rows.main_row_bytes = row_bytes(main, config.head_dim, format);
    rows.index_row_bytes = row_bytes(index, config.index_head_dim, format);
    if (format == CacheFormat::kPacked) {
      rows.main_scale_bytes = main.scales;
      rows.index_scale_bytes = index.scales;
    }
    rows.main_offset_bytes = layout.block_bytes;
    rows.index_offset_bytes =
        rows.main_offset_bytes + uint64_t{rows.entries_per_block} * rows.main_row_bytes;
    layout.block_bytes =
        rows.index_offset_bytes + uint64_t{rows.entries_per_block} * rows.index_row_bytes;
    layout.owners.push_back(rows);
  }
  return layout;
}

uint64_t CacheLayout::rows_bytes(uint64_t tokens) const {
  uint64_t bytes = 0;
  for (const OwnerLayout& owner : owners) {
    bytes += entries_after(tokens, owner.ratio) *
             (uint64_t{owner.main_row_bytes} + owner.index_row_bytes);
  }
  return bytes;
}

uint64_t CacheLayout::reserved_bytes(uint64_t tokens) const {
  return base::div_ceil(tokens, kBlockTokens) * block_stride_bytes();
}

double global_bytes_per_token(const CacheLayout& layout) {
  return static_cast<double>(layout.block_bytes) / kBlockTokens;
}

SequenceBytes sequence_bytes(const Config& config, const CacheLayout& layout) {
  SequenceBytes bytes;
  const uint64_t row_of_all = uint64_t{layout.window_layers} * layout.window_row_bytes;
  bytes.windows = config.sliding_window * row_of_all;
  bytes.window_slack = kWindowSlackRows * row_of_all;
  for (const OwnerLayout& owner : layout.owners) {
    const uint64_t waiting_tokens = owner.ratio - 1;
    bytes.half_pairs += waiting_tokens * 2 * config.head_dim * sizeof(float);  // value and gate
  }
  const uint64_t numbers = 1 + 2 * layout.owners.size() + layout.window_layers;
  bytes.snapshot_state = numbers * sizeof(uint64_t) + bytes.half_pairs;
  if (!config.engram.layer_ids.empty()) {
    bytes.engram_history = (config.engram.max_ngram_size - 1) * sizeof(uint32_t);
  }
  return bytes;
}

}  // namespace thimble::arch
