#include "engine/internal/model_runner.h"

#include <utility>
#include <vector>

#include "cache/sequence_cache.h"

namespace thimble::engine {
namespace {

struct ModelSequence : RunnerSequence {
  ModelSequence(model::SequenceState s, cache::SequenceCache c)
      : state(std::move(s)), cache(std::move(c)) {}
  model::SequenceState state;
  cache::SequenceCache cache;
};

}  // namespace

ModelRunner::ModelRunner(const model::Model& model, uint32_t threads)
    : model_(model),
      layout_(arch::make_cache_layout(model.config(), model.cache_format())),
      pool_(threads) {}

Result<std::unique_ptr<RunnerSequence>> ModelRunner::start(uint64_t tokens_max) {
  auto cache = THIMBLE_TRY(cache::SequenceCache::create(model_.config(), layout_, tokens_max));
  return std::make_unique<ModelSequence>(model_.new_sequence(), std::move(cache));
}

Result<void> ModelRunner::run(std::span<const Step> steps) {
  std::vector<model::Chunk> chunks;
  for (const Step& step : steps) {
    auto& sequence = *static_cast<ModelSequence*>(step.sequence);
    THIMBLE_TRY(sequence.cache.reserve(sequence.state.position + step.ids.size()));
    model::Chunk chunk;
    chunk.state = &sequence.state;
    chunk.rows = &sequence.cache.rows();
    chunk.ids = step.ids;
    chunk.logit_rows = step.logits.empty() ? 0 : 1;
    chunk.logits = step.logits.data();
    chunks.push_back(chunk);
  }
  return model_.forward(chunks, {pool_, workspace_});
}

}  // namespace thimble::engine
