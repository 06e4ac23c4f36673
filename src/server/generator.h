// The server's view of whatever generates: one model, requests in, tokens out.
//
// The real one adapts engine::Engine; tests and the fuzzer bring their own, so that all of the API
// runs without a model. submit() and cancel() may be called from any thread; sinks are called on
// the generator's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "text/encoding_texts.h"
#include "text/special_tokens.h"
#include "text/token_trie.h"
#include "text/tokenizer.h"

namespace thimble::server {

// Fixed while the server runs.
struct ModelInfo {
  std::string name;
  int64_t created = 0;                          // seconds since 1970
  uint64_t context_tokens = 0;                  // longest prompt + answer
  uint32_t vocab_size = 0;                      // the model's: ids it takes are below
  bool random_weights = false;                  // its words are noise: clients should say so
  const text::Tokenizer* tokenizer = nullptr;   // not null; outlives the generator
  Result<text::SpecialTokens> chat_tokens;      // or why this tokenizer cannot chat
  std::shared_ptr<const text::TokenTrie> trie;  // of the tokenizer; not null
  text::EncodingTexts texts = {};               // what tools need; empty: none on offer
  std::optional<int32_t> bos;                   // what plain completions need
  std::optional<int32_t> eos;
};

// Fills in what follows from the tokenizer, its size for the vocabulary's. REQUIRES: it outlives
// the result.
ModelInfo make_model_info(std::string name, uint64_t context_tokens,
                          const text::Tokenizer& tokenizer);

class Generator {
 public:
  virtual ~Generator() = default;
  virtual const ModelInfo& info() const = 0;
  // All or none of them. REQUIRES: at least one.
  virtual Result<std::vector<engine::RequestId>> submit(
      std::vector<engine::Submission> submissions) = 0;
  virtual void cancel(engine::RequestId id) = 0;

  struct Load {
    uint64_t running = 0;
    uint64_t waiting = 0;
    uint64_t finished = 0;
    // Of finished requests.
    uint64_t cache_hits = 0;
    uint64_t cached_tokens = 0;
    uint64_t replayed_tokens = 0;
    engine::CacheUse cache = {};
    // Since the start.
    uint64_t steps = 0;  // forward passes
    uint64_t prompt_rows = 0;
    uint64_t sampled_tokens = 0;
    uint64_t pauses = 0;  // of running requests, for want of room
    engine::ReadAheadCounts read_ahead = {};
  };
  virtual Load load() const = 0;
};

// `engine` must outlive the result and have a tokenizer.
std::unique_ptr<Generator> make_engine_generator(engine::Engine& engine, ModelInfo info);

}  // namespace thimble::server
