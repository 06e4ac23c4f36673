// Times of an operation and the machine's roofs, by turns, so that a busy machine slows both.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "kernels/roofs.h"

namespace thimble::app {

struct Measured {
  double us = 0;            // the best
  double mean_us = 0;       // over the rounds
  double read_gbps = 0;     // the roofs of the same moments: the best,
  double compute_gops = 0;  // and the mean
  double rival_us = 0;      // another engine's best of the same moments; 0: not measured
};

// What binds. Bytes: the best against the best. Operations: means of the same moments, because a
// busy neighbour costs both alike.
inline double roof_share(const Measured& m, double bytes, double flops) {
  return std::max(1e-3 * bytes / m.us / m.read_gbps, 1e-3 * flops / m.mean_us / m.compute_gops);
}

struct Times {
  double best_us = 1e30;
  double total_us = 0;
  int runs = 0;
};

inline void add_runs(Times& times, auto&& body) {
  constexpr int64_t kAtLeastUs = 60'000;
  using Clock = std::chrono::steady_clock;
  const int64_t begun = base::monotonic_us();
  for (int run = 0; run < 3 || base::monotonic_us() - begun < kAtLeastUs; ++run, ++times.runs) {
    const auto begin = Clock::now();
    body();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    times.best_us = std::min(times.best_us, us);
    times.total_us += us;
  }
}

// body(turn) is run for some 60 ms between roofs, three times, and so is the rival's. `memory`:
// what is read at its best.
inline Measured measure(base::ThreadPool& pool, kernels::Burn burn, Bytes memory, auto&& body,
                        const std::function<void(size_t)>& rival = {}) {
  constexpr int kRounds = 3;
  size_t turn = 0;
  Times times;
  Times rival_times;
  Measured m;
  for (int round = 0; round < kRounds; ++round) {
    m.compute_gops += kernels::mean_gops(pool, burn) / (2 * kRounds);
    add_runs(times, [&] { body(turn++); });
    if (rival) add_runs(rival_times, [&] { rival(turn++); });
    m.compute_gops += kernels::mean_gops(pool, burn) / (2 * kRounds);
    m.read_gbps = std::max(m.read_gbps, kernels::read_gbps(pool, memory));
  }
  m.us = times.best_us;
  m.mean_us = times.total_us / times.runs;
  if (rival) m.rival_us = rival_times.best_us;
  return m;
}

}  // namespace thimble::app
