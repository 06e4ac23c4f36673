#include "server/generator.h"

namespace thimble::server {
namespace {

class EngineGenerator : public Generator {
 public:
  EngineGenerator(engine::Engine& engine, ModelInfo info)
      : engine_(engine), info_(std::move(info)) {}

  const ModelInfo& info() const override { return info_; }

  Result<engine::RequestId> submit(engine::GenerationRequest request,
                                   std::shared_ptr<engine::GenerationSink> sink) override {
    return engine_.submit(std::move(request), std::move(sink));
  }

  void cancel(engine::RequestId id) override { engine_.cancel(id); }

  Load load() const override {
    const engine::Engine::Counters counters = engine_.counters();
    return {counters.running,       counters.waiting,         counters.cache_hits,
            counters.cached_tokens, counters.replayed_tokens, counters.cache,
            counters.steps,         counters.prompt_tokens,   counters.generated_tokens};
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
