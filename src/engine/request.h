// What the engine is asked for and what it gives back, in token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/replay.h"
#include "model/read_ahead.h"
#include "text/token_masker.h"

namespace thimble::engine {

using model::ReadAheadCounts;

using RequestId = uint64_t;  // from 1 on, never used twice

inline constexpr uint32_t kTopLogprobsMax = 20;
inline constexpr float kRepetitionPenaltyMax = 100.0F;

struct LogitBias {
  int32_t token = 0;
  float bias = 0;  // [-100, 100], added to the token's logit
};

// Sampling of one request. temperature 0 is greedy; filters apply in the order top_k, top_p, min_p.
struct SamplingParams {
  float temperature = 1.0F;  // [0, 2]
  float top_p = 1.0F;        // (0, 1]; 1: off
  uint32_t top_k = 0;        // 0: off
  float min_p = 0.0F;        // [0, 1]; 0: off
  uint64_t seed = 0;         // the same seed and prompt give the same tokens
  // Taken off the logits of tokens that the answer has: once, and once for each time. [-2, 2]
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  // Of tokens that prompt or answer have: divides logits above 0, multiplies the others.
  // (0, kRepetitionPenaltyMax]; 1: off
  float repetition_penalty = 1.0F;
  std::vector<LogitBias> logit_bias = {};
};

// What an answer has to be a text of. It ends with a stop token only where it is one, or by itself
// where nothing may follow; cut by max_tokens it is the beginning of one.
struct AnswerForm {
  // Used by the engine thread alone once the request is submitted; requests may share it.
  std::shared_ptr<text::TokenMasker> masker;
  std::optional<int32_t> begins_after;  // the token that ends reasoning; empty: holds at once
  std::vector<int32_t> barred_before;   // never sampled before it
};

struct GenerationRequest {
  std::vector<int32_t> prompt;  // not empty
  SamplingParams sampling;
  uint32_t max_tokens = 0;                // at least 1; prompt + max_tokens must fit the context
  std::vector<int32_t> stop_tokens;       // end the answer; never shown to the sink
  std::vector<int32_t> masked_tokens;     // never sampled
  std::optional<AnswerForm> form;         // empty: any text
  Replay replay = Replay::kAuto;          // after a hit in the prefix cache
  int32_t priority = 0;                   // higher ones run first, and with the larger share
  std::optional<int64_t> deadline_us;     // of base::monotonic_us(); then it ends with an error
  std::string cache_salt;                 // only requests of the same salt share cached prefixes
  bool reuse = true;                      // false: computes all, whatever is cached
  std::vector<uint64_t> snapshot_points;  // prompt lengths at which later requests may resume
  // Empty: no log-probabilities; else so many alternatives, at most kTopLogprobsMax.
  std::optional<uint32_t> top_logprobs;
  // The same for the prompt's own tokens: then all of it is computed, whatever is cached.
  std::optional<uint32_t> prompt_logprobs;
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

struct GeneratedToken {
  int32_t token = 0;
  float logprob = 0;              // of the unscaled, unfiltered distribution; 0 unless asked for
  std::vector<TokenLogprob> top;  // most likely first
};

// A token of the prompt, by the logits of the tokens before it.
struct PromptToken {
  int32_t token = 0;
  float logprob = 0;
  uint64_t rank = 0;              // 1: the most likely; of equals the lower id comes first
  std::vector<TokenLogprob> top;  // most likely first: ranks 1, 2, ...
};

enum class FinishReason {
  kStop,       // a stop token, or the sink said so
  kLength,     // max_tokens
  kCancelled,  // cancel(), or the engine goes
  kError,      // the deadline too, as kUnavailable
};

struct GenerationEnd {
  FinishReason reason = FinishReason::kStop;
  std::optional<Error> error;  // with kError
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;  // sampled ids, a final stop token included
  uint64_t cached_tokens = 0;      // of the prompt: adopted from the prefix cache
  uint64_t replayed_tokens = 0;    // ran again: to rebuild windows, or after a pause
  uint64_t computed_tokens = 0;    // rows that ran before there was something to sample
  bool exact = true;               // is every bit that of an uninterrupted run?
  int64_t queue_us = 0;
  int64_t prefill_us = 0;
  int64_t decode_us = 0;
};

// Receives a request's tokens on the engine thread, which waits meanwhile: must return at once. It
// may call submit(), cancel() and counters(); its first call may come before submit() has returned.
// Should it throw, its request ends with kError and no other notices. The engine lets go of the
// sink after on_end(), so a sink may be destroyed on the engine thread.
class GenerationSink {
 public:
  enum class Next { kContinue, kStop };
  virtual ~GenerationSink() = default;
  // All tokens of the prompt but the first, if the request asked for their log-probabilities: once,
  // before the first on_token().
  virtual void on_prompt(std::vector<PromptToken> tokens) { (void)tokens; }
  // kStop ends the request with FinishReason::kStop: nothing more is computed.
  virtual Next on_token(const GeneratedToken& token) = 0;
  // Exactly once, last; also after cancel() and when the engine shuts down.
  virtual void on_end(const GenerationEnd& end) = 0;
};

// A request and who hears of it.
struct Submission {
  GenerationRequest request;
  std::shared_ptr<GenerationSink> sink;
};

// What the cache holds, as of the last step.
struct CacheUse {
  uint64_t blocks_total = 0;
  uint64_t blocks_used = 0;     // of them: live, or kept for later requests
  uint64_t blocks_live = 0;     // of the used: held by requests that run
  uint64_t blocks_indexed = 0;  // of the used: in the prefix index
  uint64_t blocks_evicted = 0;  // since the start
  uint64_t block_bytes = 0;
  uint64_t snapshots = 0;
  uint64_t snapshots_used = 0;  // since the start
  uint64_t snapshot_bytes = 0;
  uint64_t snapshot_bytes_max = 0;
  uint64_t ring_bytes = 0;  // window rings of one sequence
};

// What an engine has done since it was opened. While anything runs, `steps` keeps rising.
struct EngineCounters {
  uint64_t waiting = 0;  // requests in the queue, or paused for want of room
  uint64_t running = 0;
  uint64_t finished = 0;
  uint64_t steps = 0;             // forward passes
  uint64_t step_rows_decode = 0;  // rows of them that each gave the next token of an answer
  uint64_t pauses = 0;            // of running requests, for want of room
  uint64_t prompt_tokens = 0;     // prompt rows that ran, replayed ones included
  uint64_t generated_tokens = 0;  // sampled
  // Of finished requests.
  uint64_t cache_hits = 0;       // that began with cached tokens
  uint64_t cached_tokens = 0;    // those tokens
  uint64_t replayed_tokens = 0;  // of those, ran again
  CacheUse cache;
  ReadAheadCounts read_ahead;  // since the start; zeros where memory holds the weights
};

}  // namespace thimble::engine
