#include "engine/layer_token_time.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "engine/forced_run.h"

namespace thimble::engine {
namespace {

constexpr uint64_t kMeasuredRowsMax = 64;
constexpr int64_t kLongEnoughUs = 100'000;

}  // namespace

Result<double> measure_layer_token(const model::Model& model, uint64_t context_tokens,
                                   uint32_t threads) {
  base::ThreadPool pool(threads);
  const uint64_t layers = model.plan().layers.size();
  // The first step also brings the weights into memory: it is run twice.
  double best_us = 0;
  uint64_t rows = std::min<uint64_t>(8, context_tokens);
  for (bool warm = false;; warm = true) {
    std::vector<int32_t> ids(rows);
    for (uint64_t i = 0; i < rows; ++i) {
      ids[i] = static_cast<int32_t>(i * 7 % model.config().vocab_size);
    }
    auto sequence = THIMBLE_TRY(ForcedSequence::create(model, rows, pool));
    const int64_t begun_us = base::monotonic_us();
    THIMBLE_TRY(sequence.run(ids, {}, {}));
    const int64_t took_us = base::monotonic_us() - begun_us;
    best_us = static_cast<double>(took_us) / static_cast<double>(rows * layers);
    const bool last =
        took_us >= kLongEnoughUs || rows >= std::min(kMeasuredRowsMax, context_tokens);
    if (warm && last) return best_us;
    if (warm) rows = std::min({2 * rows, kMeasuredRowsMax, context_tokens});
  }
}

}  // namespace thimble::engine
