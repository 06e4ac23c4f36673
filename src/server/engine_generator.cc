#include "server/generator.h"

namespace thimble::server {
namespace {

class EngineGenerator : public Generator {
 public:
  EngineGenerator(engine::Engine& engine, ModelInfo info)
      : engine_(engine), info_(std::move(info)) {}

  const ModelInfo& info() const override { return info_; }

  Result<std::vector<engine::RequestId>> submit(
      std::vector<engine::Submission> submissions) override {
    return engine_.submit(std::move(submissions));
  }

  void cancel(engine::RequestId id) override { engine_.cancel(id); }

  Load load() const override {
    const engine::Engine::Counters counters = engine_.counters();
    return {.running = counters.running,
            .waiting = counters.waiting,
            .finished = counters.finished,
            .cache_hits = counters.cache_hits,
            .cached_tokens = counters.cached_tokens,
            .replayed_tokens = counters.replayed_tokens,
            .cache = counters.cache,
            .steps = counters.steps,
            .prompt_rows = counters.prompt_tokens,
            .sampled_tokens = counters.generated_tokens,
            .pauses = counters.pauses,
            .read_ahead = counters.read_ahead};
  }

 private:
  engine::Engine& engine_;
  const ModelInfo info_;
};

}  // namespace

std::unique_ptr<Generator> make_engine_generator(engine::Engine& engine, ModelInfo info) {
  return std::make_unique<EngineGenerator>(engine, std::move(info));
}

}  // namespace thimble::server
