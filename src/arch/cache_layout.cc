#include "arch/cache_layout.h"

#include <algorithm>

#include "base/bytes.h"

namespace thimble::arch {
namespace {

constexpr uint32_t kMainGroup = 16;    // E4M3 scale of the main rows
constexpr uint32_t kIndexGroup = 32;   // E8M0 scale of the index rows
constexpr uint32_t kWindowGroup = 32;  // E8M0 scale of the window rows

constexpr uint32_t fp4_row_bytes(uint32_t width, uint32_t group) {
  return width / 2 + width / group;
}

uint32_t main_row_bytes(const Config& c, CacheFormat format) {
  return format == CacheFormat::kFloat ? c.head_dim * 4 : fp4_row_bytes(c.head_dim, kMainGroup);
}

uint32_t index_row_bytes(const Config& c, CacheFormat format) {
  return format == CacheFormat::kFloat ? c.index_head_dim * 4
                                       : fp4_row_bytes(c.index_head_dim, kIndexGroup);
}

uint32_t window_row_bytes(const Config& c, CacheFormat format) {
  return format == CacheFormat::kFloat ? c.head_dim * 4 : c.head_dim + c.head_dim / kWindowGroup;
}

}  // namespace

CacheLayout make_cache_layout(const Config& config, CacheFormat format) {
  CacheLayout layout;
  layout.format = format;
  layout.window_row_bytes = window_row_bytes(config, format);
  layout.window_layers = config.num_hidden_layers;
  for (const Owner& owner : make_layer_plan(config).owners) {
    OwnerLayout rows;
    rows.layer = owner.layer;
    rows.ratio = owner.ratio;
    rows.entries_per_block = kBlockTokens / owner.ratio;
    rows.main_row_bytes = main_row_bytes(config, format);
    rows.index_row_bytes = index_row_bytes(config, format);
    if (format == CacheFormat::kPacked) {
      rows.main_scale_bytes = config.head_dim / kMainGroup;
      rows.index_scale_bytes = config.index_head_dim / kIndexGroup;
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
  return base::div_ceil(tokens, kBlockTokens) * block_bytes;
}

double global_bytes_per_token(const CacheLayout& layout) {
  return static_cast<double>(layout.block_bytes) / kBlockTokens;
}

SequenceBytes sequence_bytes(const Config& config, const CacheLayout& layout) {
  SequenceBytes bytes;
  bytes.windows = uint64_t{layout.window_layers} * config.sliding_window * layout.window_row_bytes;
  for (const OwnerLayout& owner : layout.owners) {
    const uint64_t waiting_tokens = owner.ratio - 1;
    bytes.half_pairs += waiting_tokens * 2 * config.head_dim * sizeof(float);  // value and gate
  }
  if (!config.engram.layer_ids.empty()) {
    bytes.engram_history = (config.engram.max_ngram_size - 1) * sizeof(uint32_t);
  }
  return bytes;
}

}  // namespace thimble::arch
