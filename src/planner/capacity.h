// How many contexts a memory holds, how long a disk keeps them, how large a pool of snapshots is.
//
// All sizes in bytes; units are for who prints them. Source: serving spec sections 3 and 9.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cache_design.h"

namespace thimble::planner {

// Contexts of equal length in a memory, counted three ways, each stricter than the one before.
struct Contexts {
  uint64_t by_entries = 0;    // entries alone; where there are none, as with windows
  uint64_t with_windows = 0;  // and what a sequence holds whatever its length
  // And entries in whole blocks, rings with their slack: what our allocator takes. Empty: a design
  // that it does not hold.
  std::optional<uint64_t> in_blocks = {};
};

// REQUIRES: tokens > 0.
Contexts contexts_in(const CacheDesign& design, uint64_t memory_bytes, uint64_t tokens);

struct ConcurrencyPoint {
  uint64_t tokens = 0;
  Contexts contexts;
};
// From 1,024 tokens on by powers of two up to `tokens_max`.
std::vector<ConcurrencyPoint> concurrency_curve(const CacheDesign& design, uint64_t memory_bytes,
                                                uint64_t tokens_max);

// The tier that outlives memory. The generation before kept windows there too; leaving them out is
// published as half of what is left, after a quarter for entries: 1/8 in all.
struct PersistentTier {
  double entry_ratio = 0;     // bytes a token of this design over the generation's before
  double window_ratio = 0.5;  // published
  double ratio = 0;           // their product
  // Tokens between two stored windows at which the older design's windows take as much as its
  // entries: what the published half assumes.
  double window_interval_tokens = 0;
  double retention_hours = 0;          // of the disk at the given rate
  double disk_bytes_for_72_hours = 0;  // at that rate
};
PersistentTier persistent_tier(const CacheDesign& design, const CacheDesign& before,
                               uint64_t disk_bytes, double tokens_per_second);

// Snapshots alive at once when each lives for its time to live, and their bytes.
struct SnapshotPool {
  double snapshots = 0;
  double bytes = 0;
};
SnapshotPool snapshot_pool(double snapshots_per_minute, double ttl_minutes,
                           uint64_t snapshot_bytes);

}  // namespace thimble::planner
