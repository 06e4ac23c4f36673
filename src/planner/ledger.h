// What a model of this architecture stores: bytes of a token, of a sequence, of the checkpoint.
//
// Everything is read off the tables that the allocator and the loader use (arch/cache_layout.h,
// arch/weight_table.h). Source: design section 2; backbone spec sections 2 and 7.4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/cache_layout.h"
#include "arch/config.h"

namespace thimble::planner {

// Entries of one owner. Bytes are those of one entry of `ratio` tokens.
struct OwnerLine {
  uint32_t layer = 0;
  uint32_t ratio = 0;
  uint32_t main_payload = 0;
  uint32_t main_scales = 0;
  uint32_t index_payload = 0;
  uint32_t index_scales = 0;
  double bytes_per_token = 0;
};

struct PartLine {
  std::string part;  // of the checkpoint
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t parameters = 0;
};

struct Ledger {
  std::vector<OwnerLine> owners;
  double global_kv_bytes_per_token = 0;
  std::string derivation;  // of that figure
  uint64_t block_bytes = 0;
  // Of one sequence, whatever its length.
  uint64_t window_bytes = 0;
  uint64_t window_slack_bytes = 0;  // ring rows beyond the window, for steps that are taken back
  uint64_t half_pair_bytes = 0;
  uint64_t engram_history_bytes = 0;
  uint64_t snapshot_bytes = 0;  // of a sequence at least a window long, less its token ids
  std::vector<PartLine> parts;
  uint64_t checkpoint_tensors = 0;
  uint64_t checkpoint_bytes = 0;
  uint64_t parameters = 0;
  uint64_t sequence_bytes = 0;  // of a running sequence beside its blocks
};

Ledger make_ledger(const arch::Config& config, arch::CacheFormat format);

// What a running sequence holds beside its blocks.
uint64_t held_bytes(const arch::SequenceBytes& sequence);

}  // namespace thimble::planner
