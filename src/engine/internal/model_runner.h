// The real model behind the engine's waist: Model::forward over sequences of the paged cache.
//
// Holds the cache, the compute pool and the scratch memory of a step. Used by the engine thread
// alone, which is worker 0 of the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arch/cache_layout.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "cache/paged_cache.h"
#include "engine/internal/prefill.h"
#include "engine/internal/step_runner.h"
#include "kernels/workspace.h"
#include "model/forward.h"

namespace thimble::engine {

struct ModelRunnerOptions {
  uint32_t threads = 0;  // 0: one per CPU
  cache::PagedCacheOptions cache;
  bool checks_cache = false;  // counts the whole cache anew after every step: for tests
  // Of the weights (arch/fingerprint.h), where cached rows outlive the process. Within one they all
  // are of one model, and it stays zeros: reading the weights for it costs a start of its own.
  std::array<std::byte, 16> fingerprint{};
};

class ModelRunner : public StepRunner {
 public:
  // The model must outlive the runner.
  static Result<std::unique_ptr<ModelRunner>> create(const model::Model& model,
                                                     const ModelRunnerOptions& options);

  uint32_t vocab_size() const override { return model_.config().vocab_size; }
  Result<std::unique_ptr<RunnerSequence>> start(const SequenceSpec& spec) override;
  bool is_worth_waiting(const SequenceSpec& spec, uint64_t tokens, bool whole) override;
  Result<void> reserve(const Step& step) override;
  void unreserve(RunnerSequence& sequence) override;
  Result<void> run(std::span<const Step> steps) override;
  void finish(RunnerSequence& sequence) override;
  void pause(RunnerSequence& sequence) override;
  uint64_t blocks_available() const override;
  void idle() override;
  CacheUse cache_use() const override;

  const cache::PagedCache& cache() const { return *cache_; }

 private:
  ModelRunner(const model::Model& model, const ModelRunnerOptions& options,
              std::unique_ptr<cache::PagedCache> cache);
  // A sequence as it begins: what was adopted, and the model's bytes of the snapshot resumed from.
  struct Begun {
    std::unique_ptr<cache::Sequence> cached;
    Route route;
    std::vector<std::byte> state;
  };
  Result<Begun> begin(const SequenceSpec& spec);
  Result<void> run_steps(std::span<const Step> steps);
  void check_cache() const;
  cache::CacheIdentity identity(const std::string& salt) const;

  const model::Model& model_;
  const ModelRunnerOptions options_;
  std::unique_ptr<cache::PagedCache> cache_;
  base::ThreadPool pool_;
  kernels::Workspace workspace_;
};

}  // namespace thimble::engine
