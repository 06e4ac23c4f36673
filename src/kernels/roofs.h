// What this machine can do at most: bytes a second out of memory, multiply-adds a second in
// registers. Benchmarks set their figures against these, the planner works with them.
//
// Each figure is the best of several short runs on all threads of the pool. On a machine with other
// things to do they are low; measure them in the same run as what is compared with them.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace thimble::kernels {

struct Roofs {
  const char* isa = "";
  uint32_t threads = 0;
  double read_gbps = 0;      // 1e9 bytes a second, from a buffer larger than every cache
  double fma_gflops = 0;     // float32 multiply-adds, two operations each
  double int8_gops = 0;      // int8 products summed to int32, two operations each
  double int8_sat_gops = 0;  // the same summed to int16 first: enough for 4-bit codes
};

// More than caches hold: a quarter above the last level of this machine, 288 MB at least (others
// may share it) and 1 GB at most.
uint64_t uncached_bytes();

// Of the instruction set that kernels() has chosen. kResourceExhausted without memory for the
// buffer of `buffer_bytes`.
Result<Roofs> measure_roofs(base::ThreadPool& pool, uint64_t buffer_bytes = uncached_bytes());

// One of the figures of operations alone: the mean over some milliseconds rather than the best, to
// be set against means of the same moments.
enum class Burn { kFma, kInt8 };
double mean_gops(base::ThreadPool& pool, Burn burn, int64_t at_least_us);

// A way to read: from several places of a thread's share by turns, asking for what lies so many
// bytes ahead, or not (0). What a core reads at most depends on it, and which is best on the CPU.
struct Reader {
  uint32_t streams = 1;
  uint32_t ahead = 0;
};

// How fast these bytes are read once, in 1e9 bytes a second.
double read_gbps(base::ThreadPool& pool, Bytes bytes, const Reader& reader);

// The best of several readers and runs.
struct ReadRoof {
  double gbps = 0;
  Reader reader = {};
};
ReadRoof best_read(base::ThreadPool& pool, Bytes bytes);

}  // namespace thimble::kernels
