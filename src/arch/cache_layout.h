// How many bytes a token costs in each stream, and where each row lies. The planner and the
// allocator both ask here.
//
// A block holds `kBlockTokens` tokens of every owner, owner by owner: first its main rows, then its
// index rows. Index rows lie in tiles of `kTileEntries` entries, dimension-sliced: the codes of
// dimension 0 of all entries, dimension 1, ... (two codes a byte, even entry in the low nibble),
// then the scales of group 0 of all entries, group 1, ... Main rows are row-major: codes, then
// scales. Window rows: codes, then scales. Source: backbone spec section 7.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/config.h"
#include "arch/layer_plan.h"

namespace thimble::arch {

inline constexpr uint32_t kBlockTokens = 128;
inline constexpr uint32_t kTileEntries = 16;
inline constexpr uint32_t kWindowSlackRows = 8;  // ring rows beyond the window, for a short step
inline constexpr uint64_t kBlockAlignment = 64;  // a block begins on a cache line

// kPacked is what is stored; kFloat (float32 rows, nothing rounded) serves the nokvq mode.
enum class CacheFormat { kPacked, kFloat };

// A packed row: its codes, and the scales of their groups.
struct RowBytes {
  uint32_t payload = 0;
  uint32_t scales = 0;

  uint32_t total() const { return payload + scales; }
};
RowBytes packed_main_row(uint32_t head_dim);         // E2M1, an E4M3 scale for 16 values
RowBytes packed_index_row(uint32_t index_head_dim);  // E2M1, an E8M0 scale for 32
RowBytes packed_window_row(uint32_t head_dim);       // E4M3, an E8M0 scale for 32

struct OwnerLayout {
  uint32_t layer = 0;
  uint32_t ratio = 0;
  uint32_t entries_per_block = 0;
  uint32_t main_row_bytes = 0;      // one entry's main row
  uint32_t index_row_bytes = 0;     // one entry's share of its tile
  uint32_t main_scale_bytes = 0;    // of which scales
  uint32_t index_scale_bytes = 0;   // of which scales
  uint64_t main_offset_bytes = 0;   // inside a block
  uint64_t index_offset_bytes = 0;  // inside a block
};

struct CacheLayout {
  CacheFormat format = CacheFormat::kPacked;
  std::vector<OwnerLayout> owners;  // as LayerPlan::owners
  uint64_t block_bytes = 0;         // 113,920 for the released model, packed
  uint32_t window_row_bytes = 0;    // 528 for the released model, packed
  uint32_t window_layers = 0;       // layers with a window ring: all of them

  // From one block to the next in a pool: what a block costs.
  uint64_t block_stride_bytes() const {
    return (block_bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
  // Global KV bytes of the entries that exist after `tokens` tokens: rows written, not reserved.
  uint64_t rows_bytes(uint64_t tokens) const;
  // Blocks reserved for `tokens` tokens, in bytes.
  uint64_t reserved_bytes(uint64_t tokens) const;
};

CacheLayout make_cache_layout(const Config& config, CacheFormat format);

// Global KV bytes per token, averaged over a whole block: 890 for the released model.
double global_bytes_per_token(const CacheLayout& layout);

// What one sequence holds beside its blocks.
struct SequenceBytes {
  uint64_t windows = 0;         // all rings, without slack: 2,703,360 for the released model
  uint64_t window_slack = 0;    // ring rows beyond the window
  uint64_t half_pairs = 0;      // fp32 value and gate of each ratio-2 owner's open group: 12,288
  uint64_t engram_history = 0;  // compressed ids of the last max_ngram_size - 1 tokens
  // What a snapshot keeps beside the windows: open groups, and where every window begins, each
  // number of 64 bits (model/sequence_state.h writes it). Ids and Engram history follow from
  // tokens.
  uint64_t snapshot_state = 0;
};
SequenceBytes sequence_bytes(const Config& config, const CacheLayout& layout);

}  // namespace thimble::arch
