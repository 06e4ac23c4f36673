// Times of an operation and the machine's roofs, by turns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "apps/thimble/bench/rival.h"
#include "kernels/roofs.h"

namespace thimble::app {

// Medians of the rounds. Within a round the best is taken of times and of reads, of pieces as large
// as what the operation reads, and the mean of operations.
struct Measured {
  double us = 0;
  double read_gbps = 0;  // the roofs of the same moments
  double compute_gops = 0;
  double roof_share = 0;  // of the one that binds
  double rival_us = 0;    // another engine's; 0: not measured
};

// What one run of an operation reads, and how much it computes.
struct Work {
  double bytes = 0;
  double flops = 0;
};

// Of some runs within a few milliseconds.
struct Times {
  double best_us = 0;
  double mean_us = 0;
};

// Of the roof that binds. Bytes: the best against the best of pieces as large, because what else
// the machine does hits some of both. Operations: means, because it slows both alike.
inline double share_of_roof(const Work& work, const Times& times, double read_gbps,
                            double compute_gops) {
  return 1e-3 * std::max(work.bytes / times.best_us / read_gbps,
                         work.flops / times.mean_us / compute_gops);
}

// In a round body(turn), the rival's and the roofs have a few milliseconds each: what else the
// machine does then slows all of them, and rounds in which it hit one alone are not the median.
// `memory`: what is read at its best, piece by piece. `rival` may be null.
Measured measure(base::ThreadPool& pool, kernels::Burn burn, Bytes memory, const Work& work,
                 const std::function<void(size_t)>& body, RivalProduct* rival = nullptr);

}  // namespace thimble::app
