// One loaded model and the one thread that runs it.
//
// submit(), cancel() and counters() may be called from any thread, everything else is fixed once
// open. Requests wait in a bounded queue, by priority and age, until they run, many at once, each
// as if it were alone; sinks are called on the engine thread. Destroying the engine ends all
// requests with kCancelled before the destructor returns; it must not happen on the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "arch/config.h"
#include "arch/layer_plan.h"
#include "base/file.h"
#include "base/result.h"
#include "engine/request.h"
#include "model/forward.h"
#include "planner/startup_plan.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace thimble::engine {

inline constexpr uint32_t kThreadsMax = 4096;
inline constexpr uint32_t kQueueRequestsMax = 1U << 20;
inline constexpr uint32_t kSequencesAtOnceMax = 4096;

struct EngineOptions {
  Path model_dir;
  model::Mode mode = model::Mode::kFast;
  uint32_t threads = 0;                   // compute threads, up to kThreadsMax; 0: one per CPU
  uint32_t prefill_chunk = 256;           // tokens of prompts in a step, at most
  uint32_t sequences_max = 0;             // requests that run at once; 0: as memory allows
  uint32_t queue_requests_max = 64;       // 1 to kQueueRequestsMax
  uint64_t context_tokens = 0;            // 0: the model's maximum, less what memory cannot hold
  std::optional<uint64_t> kv_bytes = {};  // pool of global KV; empty: what memory allows
  std::optional<uint64_t> snapshot_bytes = {};  // window snapshots; empty: a tenth of the memory
  uint32_t snapshot_ttl_seconds = 600;          // since their last use
  bool checks_cache = false;     // counts the whole cache anew after every step: slow
  bool measures_replay = false;  // times some rows, so that the plan tells what policies cost
};

class Engine {
 public:
  // Loads and verifies the model and starts the engine thread. Errors name file and tensor. A
  // context that memory made shorter than the model's maximum is logged as a warning.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  // What open() would do with the memory there is now, without reading a weight; replay untimed.
  static Result<planner::StartupPlan> plan_of(const EngineOptions& options);
  ~Engine();

  // kResourceExhausted: the queue is full. kInvalidArgument: the request can never run (empty
  // prompt, token out of range, does not fit the context); the message has the numbers. Besides the
  // request's masked_tokens, ids that have no text or stand for images are never sampled.
  Result<RequestId> submit(GenerationRequest request, std::shared_ptr<GenerationSink> sink);
  // All or none, ids in their order; the queue has room for all, or those that run at once have.
  // kInvalidArgument also where that can never be. REQUIRES: at least one.
  Result<std::vector<RequestId>> submit(std::vector<Submission> submissions);

  // The request ends with kCancelled before its next step, a waiting one frees its place at once;
  // unknown or finished ids are ignored.
  void cancel(RequestId id);

  const arch::Config& config() const;
  const planner::StartupPlan& plan() const;  // the bytes: printed by the commands
  const arch::LayerPlan& layers() const;
  uint64_t context_tokens() const;        // longest prompt + answer
  const std::string& model_name() const;  // the directory's name
  // Null when the directory has no tokenizer.json: then requests are ids and chat is impossible.
  const text::Tokenizer* tokenizer() const;
  // What chat needs of the tokenizer, or why it cannot chat.
  const Result<text::SpecialTokens>& chat_tokens() const;

  using Counters = EngineCounters;
  Counters counters() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace thimble::engine
