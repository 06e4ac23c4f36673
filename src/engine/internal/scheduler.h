// The queue and the engine thread: which request runs its next step.
//
// Today one request at a time, in order of arrival. The thread holds no lock while a step runs or a
// sink is called, so submit(), cancel() and counters() return at once, and may be called from a
// sink. Between any two steps cancelled requests are dropped.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "engine/internal/admission.h"
#include "engine/internal/sequence.h"
#include "engine/internal/step_runner.h"
#include "engine/request.h"

namespace thimble::engine {

struct SchedulerOptions {
  uint32_t prefill_chunk = 256;
  uint32_t queue_requests_max = 64;
  uint64_t context_tokens = 0;
};

class Scheduler {
 public:
  // Starts the thread. The runner must outlive the scheduler and is used by its thread alone.
  Scheduler(StepRunner& runner, const SchedulerOptions& options);
  // Ends every request with kCancelled, then the thread. REQUIRES: not called on that thread.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Result<RequestId> submit(GenerationRequest request, std::shared_ptr<GenerationSink> sink);
  void cancel(RequestId id);
  EngineCounters counters() const;

 private:
  void loop();
  std::optional<PendingRequest> next_request();
  void run_to_end(PendingRequest pending);
  Result<void> run_step(const Step& step);
  bool running_was_cancelled();
  void end_dropped();
  void count_end(const GenerationEnd& end);
  void count(const Sequence& sequence, uint64_t prompt_before, uint64_t generated_before);

  StepRunner& runner_;
  const SchedulerOptions options_;
  const AdmissionLimits limits_;

  mutable std::mutex mutex_;  // guards everything below but the thread
  std::condition_variable wake_;
  std::deque<PendingRequest> waiting_;
  std::vector<PendingRequest> dropped_;  // cancelled while waiting; the thread tells their sinks
  std::optional<RequestId> running_;
  bool running_cancelled_ = false;
  bool stopping_ = false;
  RequestId last_id_ = 0;
  EngineCounters counters_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace thimble::engine
