#include "engine/forced_run.h"

#include <algorithm>

#include "arch/cache_layout.h"
#include "base/check.h"
#include "cache/sequence_cache.h"

namespace thimble::engine {

std::vector<uint64_t> step_lengths(uint64_t tokens, const Cuts& cuts) {
  CHECK(cuts.chunk > 0);
  const uint64_t prompt = cuts.decode_from == 0 ? tokens : std::min(tokens, cuts.decode_from);
  std::vector<uint64_t> lengths;
  for (uint64_t done = 0; done < prompt; done += lengths.back()) {
    lengths.push_back(std::min(cuts.chunk, prompt - done));
  }
  lengths.insert(lengths.end(), tokens - prompt, 1);
  return lengths;
}

Result<std::vector<float>> run_forced(const model::Model& model, std::span<const int32_t> ids,
                                      const Cuts& cuts, base::ThreadPool& pool,
                                      model::Trace* trace) {
  const uint64_t vocab = model.config().vocab_size;
  const auto layout = arch::make_cache_layout(model.config(), model.cache_format());
  auto cache = THIMBLE_TRY(cache::SequenceCache::create(model.config(), layout, ids.size()));
  THIMBLE_TRY(cache.reserve(ids.size()));
  model::SequenceState state = model.new_sequence();
  kernels::Workspace workspace;
  std::vector<float> logits(ids.size() * vocab);
  uint64_t done = 0;
  for (const uint64_t length : step_lengths(ids.size(), cuts)) {
    model::Chunk chunk;
    chunk.state = &state;
    chunk.rows = &cache.rows();
    chunk.ids = ids.subspan(done, length);
    chunk.logit_rows = static_cast<uint32_t>(length);
    chunk.logits = logits.data() + done * vocab;
    chunk.trace = trace;
    THIMBLE_TRY(model.forward({&chunk, 1}, {pool, workspace}));
    done += length;
  }
  return logits;
}

}  // namespace thimble::engine
