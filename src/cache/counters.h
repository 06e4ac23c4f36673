// What the cache has done so far and what it holds now, for metrics and start-up plans.
#pragma once

#include <cstdint>

namespace thimble::cache {

struct CacheCounters {
  // Since the start.
  uint64_t lookups = 0;             // matches made
  uint64_t hits = 0;                // sequences opened with tokens they did not compute
  uint64_t tokens_reused = 0;       // those tokens
  uint64_t rows_written_bytes = 0;  // global rows, counted as they were committed
  uint64_t blocks_published = 0;
  uint64_t blocks_deduplicated = 0;  // published by two: the second copy was freed
  uint64_t blocks_evicted = 0;
  uint64_t publish_mismatches = 0;  // of those, with other bytes: a row was not pure; must stay 0
  uint64_t snapshots_taken = 0;
  uint64_t snapshots_used = 0;
  uint64_t snapshots_expired = 0;
  uint64_t snapshots_recycled = 0;  // dropped for newer ones, for blocks, or with their node
  uint64_t snapshots_refused = 0;

  // Now.
  uint64_t blocks_total = 0;
  uint64_t blocks_free = 0;
  uint64_t blocks_indexed = 0;    // in the prefix index, tails included
  uint64_t blocks_evictable = 0;  // of those, not in use
  uint64_t blocks_live = 0;       // held by live sequences, each block once
  uint64_t blocks_shared = 0;     // with more than one reference
  uint64_t block_bytes = 0;       // that one block costs
  uint64_t reserved_bytes = 0;    // blocks that are not free
  uint64_t live_sequences = 0;
  uint64_t ring_bytes = 0;  // window rings of one sequence
  uint64_t snapshot_bytes = 0;
  uint64_t snapshot_bytes_max = 0;
  uint64_t snapshot_count = 0;
};

}  // namespace thimble::cache
