// The real model behind the engine's waist: Model::forward over each sequence's own cache.
//
// Holds the compute pool and the scratch memory of a step. Used by the engine thread alone, which
// is worker 0 of the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "arch/cache_layout.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/internal/step_runner.h"
#include "kernels/workspace.h"
#include "model/forward.h"

namespace thimble::engine {

class ModelRunner : public StepRunner {
 public:
  // The model must outlive the runner. `threads`: 0 for one per CPU.
  ModelRunner(const model::Model& model, uint32_t threads);

  uint32_t vocab_size() const override { return model_.config().vocab_size; }
  Result<std::unique_ptr<RunnerSequence>> start(uint64_t tokens_max) override;
  Result<void> run(std::span<const Step> steps) override;

  const arch::CacheLayout& layout() const { return layout_; }

 private:
  const model::Model& model_;
  const arch::CacheLayout layout_;
  base::ThreadPool pool_;
  kernels::Workspace workspace_;
};

}  // namespace thimble::engine
