// What lies where on a machine, and the speed that follows.
//
// Memory is given out in this order: weights that every token reads, one step's activations, the
// pool and the snapshots asked for, then routed experts, then Engram rows; what is left over stays
// on the disk and is read when it is needed. A graphics card takes first what every token reads,
// then the pool, then experts. Decoding is at the roof of the slowest of: bytes from each memory,
// operations, bytes from the disk. Which experts a token wants is taken as uniform: real routing
// favours some, so a cache does better than said here. Source: design section 6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/config.h"
#include "planner/flops.h"
#include "planner/machine.h"
#include "planner/traffic.h"

namespace thimble::planner {

// What a model costs, worked out once: its tables have 100,000 tensors.
struct ModelCosts {
  explicit ModelCosts(const arch::Config& of);

  arch::Config config;
  FlopsModel flops;
  WeightGroups weights;
  std::vector<TrafficLine> weight_lines;  // a decoded token's
};

struct PlacementLine {
  std::string what;
  uint64_t bytes = 0;  // in all
  uint64_t gpu = 0;    // of which here
  uint64_t ram = 0;
  uint64_t ssd = 0;
};

struct PlacementWish {
  uint64_t pool_bytes = 0;  // entries and windows of the contexts to be held
  uint64_t snapshot_bytes = 0;
  uint64_t step_bytes = 0;  // activations
  uint64_t position = 0;    // a decoded token's
};

struct Speed {
  double seconds = 0;       // a decoded token
  double memory_bytes = 0;  // read from memory for it
  double ssd_bytes = 0;     // read from the disk for it
  std::string bound;        // "memory", "disk", "operations"

  double tokens_per_second() const { return seconds > 0 ? 1 / seconds : 0; }
};

// What one change to the machine would give.
struct Advice {
  std::string change;
  double tokens_per_second = 0;
};

struct Placement {
  std::vector<PlacementLine> lines;
  bool fits = false;            // all but experts and Engram rows have a place in memory
  uint64_t missing_bytes = 0;   // else: so much more memory would do
  bool disk_fits = false;       // the checkpoint fits the disk
  double experts_resident = 0;  // share of the routed experts
  double engram_resident = 0;
  Speed speed;                 // as placed
  Speed all_resident;          // with all experts in memory
  Speed none_resident;         // with none
  std::vector<Advice> advice;  // best first
};

Placement place(const ModelCosts& model, const Machine& machine, const PlacementWish& wish);

// Index scores that are kept at a time, unless one query needs more: kernels::kScoreFloats.
inline constexpr uint64_t kScoreFloats = uint64_t{16} << 20;

// Activations of a step of `rows` rows at the end of `context` tokens, as the model takes them from
// its workspace: the streams, and the larger of what attention and experts need. The rows are of
// `sequences` sequences: each has a window, logits and what sampling them takes.
uint64_t step_bytes(const arch::Config& config, uint64_t rows, uint64_t context,
                    uint64_t sequences = 1);

// Moving a prefix of N tokens from where it was computed to where it is decoded, against computing
// it there.
struct Transfer {
  uint64_t tokens = 0;
  uint64_t entry_bytes = 0;   // of the tokens
  uint64_t window_bytes = 0;  // windows, as far as there are tokens, and open groups
  double seconds = 0;         // over the link, its latency included
  double recompute_seconds = 0;
  // From so many tokens on moving is faster; 0: it never is up to the model's maximum.
  uint64_t break_even_tokens = 0;
};
Transfer transfer(const ModelCosts& model, const Machine& machine, const PlacementWish& wish,
                  uint64_t tokens, double link_gbps, double link_latency_us);

inline constexpr uint64_t kPromptRows = 256;  // of a prompt's step

// A decoded token's speed if all weights were in memory, the graphics card holding what it does.
Speed resident_speed(const ModelCosts& model, const Machine& machine, const PlacementWish& wish);

// Seconds of a cold prompt at the machine's roofs, all weights in memory as above: each step of
// kPromptRows tokens reads the encoder, and the experts that its tokens are sent to; the steps of
// the last rows read the decoder too.
double prefill_seconds(const ModelCosts& model, const Machine& machine, const PlacementWish& wish,
                       uint64_t tokens);

}  // namespace thimble::planner
