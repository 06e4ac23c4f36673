// Aim: the memory that the start-up plan states for the whole process is what the process takes, at
// the released model's true widths. Method: an engine with a small pool on the checkpoint of
// tests/golden/wide, prompts until every expert was read and the pool is full, and the peak that
// the kernel counted, within 2 % or 64 MiB, whichever is larger. Slow: reads 1.6 GB.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "engine/testing.h"
#include "tests/golden/wide_model.h"

namespace thimble::golden {
namespace {

TEST(WideProcess, TakesWhatWasPlanned) {
  engine::EngineOptions options;
  options.model_dir = wide_model(THIMBLE_WIDE_DIR, THIMBLE_MAKE_WIDE);
  options.context_tokens = 1408;
  options.sequences_max = 2;
  options.kv_bytes = 2 << 20;
  options.snapshot_bytes = 4 << 20;
  const auto engine = engine::open_engine(options);
  ASSERT_NE(engine, nullptr);
  for (const uint64_t seed : {1, 2}) {
    engine::GenerationRequest request;
    base::SplitMix64 random(seed);
    for (int i = 0; i < 1400; ++i) {
      request.prompt.push_back(static_cast<int32_t>(random.below(2048)));
    }
    request.max_tokens = 4;
    auto sink = std::make_shared<engine::Collector>();
    ASSERT_TRUE(engine->submit(std::move(request), sink).has_value());
    ASSERT_FALSE(sink->wait().error.has_value());
  }
  const engine::CacheUse use = engine->counters().cache;
  EXPECT_EQ(use.blocks_total * use.block_bytes, engine->plan().pool_bytes);
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  const double peak = static_cast<double>(usage.ru_maxrss) * 1024;
  const auto planned = static_cast<double>(engine->plan().process_bytes);
  fmt::print("planned {:.1f} MiB, peak {:.1f} MiB (weights {:.1f}, step {:.1f})\n",
             planned / (1 << 20), peak / (1 << 20),
             static_cast<double>(engine->plan().weights_bytes) / (1 << 20),
             static_cast<double>(engine->plan().step_bytes) / (1 << 20));
  EXPECT_NEAR(peak, planned, std::max(0.02 * planned, 64.0 * (1 << 20)));
}

}  // namespace
}  // namespace thimble::golden
