#include "apps/thimble/bench/measure.h"

#include <chrono>
#include <vector>

#include "apps/thimble/bench/percentile.h"
#include "base/clock.h"

namespace thimble::app {
namespace {

Times run_for(double at_least_us, auto&& body) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  };
  Times times{.best_us = 1e30};
  const auto begun = Clock::now();
  double total = 0;
  int runs = 0;
  for (; total < at_least_us; ++runs) {
    const auto begin = Clock::now();
    body();
    times.best_us = std::min(times.best_us, since(begin));
    total = since(begun);
  }
  times.mean_us = total / runs;
  return times;
}

}  // namespace

Measured measure(base::ThreadPool& pool, kernels::Burn burn, Bytes memory, const Work& work,
                 const std::function<void(size_t)>& body, RivalProduct* rival) {
  constexpr size_t kRounds = 21;
  constexpr size_t kRoundsMin = 5;  // odd, as rounds are in the end
  constexpr int64_t kLongUs = 1'500'000;
  constexpr double kBodyUs = 6'000;
  constexpr double kReadUs = 3'000;
  constexpr int64_t kBurnUs = 3'000;
  constexpr size_t kPieceMin = 1 << 20;
  const kernels::Reader reader = kernels::best_read(pool, memory).reader;
  const size_t piece = std::clamp(static_cast<size_t>(work.bytes), kPieceMin, memory.size());
  const size_t pieces = memory.size() / piece;
  std::vector<double> us, rival_us, read, compute, share;
  size_t turn = 0;
  size_t next = 0;
  const int64_t begun = base::monotonic_us();
  for (size_t r = 0; r < kRounds; ++r) {
    const bool late = base::monotonic_us() - begun > kLongUs;
    if (late && r >= kRoundsMin && r % 2 == 1) break;
    double gbps = 0;
    run_for(kReadUs, [&] {
      const Bytes own = memory.subspan(next++ % pieces * piece, piece);
      gbps = std::max(gbps, kernels::read_gbps(pool, own, reader));
    });
    read.push_back(gbps);
    // Before and after: what a clock gives is not the same after a rest and after long work.
    compute.push_back(kernels::mean_gops(pool, burn, kBurnUs) / 2);
    const Times times = run_for(kBodyUs, [&] { body(turn++); });
    compute.back() += kernels::mean_gops(pool, burn, kBurnUs) / 2;
    us.push_back(times.best_us);
    if (rival != nullptr) {
      rival_us.push_back(run_for(kBodyUs, [&] { rival->run(turn++); }).best_us);
      rival->rest();
    }
    share.push_back(share_of_roof(work, times, read.back(), compute.back()));
  }
  return {.us = median(us),
          .read_gbps = median(read),
          .compute_gops = median(compute),
          .roof_share = median(share),
          .rival_us = rival != nullptr ? median(rival_us) : 0};
}

}  // namespace thimble::app
