// For tests of the engine with a real model: a made nano model, and requests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "arch/presets.h"
#include "arch/random_weights.h"
#include "base/file.h"
#include "base/random.h"
#include "engine/engine.h"
#include "engine/internal/collector.h"
#include "text/byte_tokenizer.h"
#include "text/token_map.h"

namespace thimble::engine {

// A checkpoint of `config` with random weights and the byte tokenizer.
inline void write_model(const Path& directory, const arch::Config& config, uint64_t seed) {
  std::filesystem::create_directories(directory);
  ASSERT_TRUE(arch::write_random_checkpoint(config, directory, seed, [](uint64_t) {}).has_value());
  ASSERT_TRUE(
      base::write_file_atomic(directory / "tokenizer.json", text::make_byte_tokenizer_json())
          .has_value());
}

inline arch::Config nano_config() {
  const auto tokenizer = text::Tokenizer::parse(text::make_byte_tokenizer_json());
  const auto map = text::build_token_map(*tokenizer);
  return arch::nano_config(tokenizer->size(), static_cast<uint32_t>(map->class_count));
}

// Made once a process: the checkpoint is 15 MB.
inline const Path& nano_model() {
  static const base::TempDir directory;
  static const Path path = [] {
    write_model(directory.path() / "nano", nano_config(), 7);
    return directory.path() / "nano";
  }();
  return path;
}

inline std::unique_ptr<Engine> open_engine(const EngineOptions& options) {
  auto engine = Engine::open(options);
  EXPECT_TRUE(engine.has_value()) << engine.error().describe();
  return engine ? std::move(*engine) : nullptr;
}

inline EngineOptions options_for(const Path& directory, uint32_t prefill_chunk = 64) {
  EngineOptions options;
  options.model_dir = directory;
  options.threads = 2;
  options.prefill_chunk = prefill_chunk;
  options.checks_cache = true;
  return options;
}

// Bytes as the byte tokenizer numbers them.
inline std::vector<int32_t> random_ids(size_t tokens, uint64_t seed) {
  std::vector<int32_t> ids;
  base::SplitMix64 random(seed);
  for (size_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int32_t>(3 + random.below(256)));
  return ids;
}

inline GenerationRequest request_of(size_t prompt_tokens, uint32_t max_tokens,
                                    float temperature = 0) {
  GenerationRequest request;
  request.prompt = random_ids(prompt_tokens, prompt_tokens);
  request.max_tokens = max_tokens;
  request.sampling.temperature = temperature;
  request.sampling.seed = 11;
  return request;
}

}  // namespace thimble::engine
