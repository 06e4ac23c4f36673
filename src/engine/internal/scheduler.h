// The queue and the engine thread: requests wait here by priority and age until the batch has a
// place for them, and are told of their ends.
//
// The thread holds no lock while a step runs or a sink is called, so submit(), cancel() and
// counters() return at once, and may be called from a sink. Between any two steps cancelled
// requests and those whose deadline is over are dropped.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "engine/internal/admission.h"
#include "engine/internal/batch.h"
#include "engine/internal/sequence.h"
#include "engine/internal/step_runner.h"
#include "engine/request.h"

namespace thimble::engine {

struct SchedulerOptions {
  uint32_t prefill_chunk = 256;
  uint32_t queue_requests_max = 64;
  uint64_t context_tokens = 0;
  uint32_t sequences_max = 1;  // requests that run at once
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
  Result<std::vector<RequestId>> submit(std::vector<Submission> submissions);
  void cancel(RequestId id);
  EngineCounters counters() const;

 private:
  Result<void> check_room(uint64_t count) const;
  struct Rank {
    int32_t priority = 0;
    RequestId id = 0;
    bool operator<(const Rank& other) const {
      return ranks_before(priority, id, other.priority, other.id);
    }
  };
  struct Dropped {
    PendingRequest request;
    bool expired = false;  // else cancelled
  };

  void loop();
  bool next_round();
  void wait_for_work();
  void drop_waiting();
  void fill_batch();
  void end_dropped();
  void end_members();
  void publish_counts();

  StepRunner& runner_;
  const SchedulerOptions options_;
  const AdmissionLimits limits_;
  Batch batch_;  // the thread's alone

  mutable std::mutex mutex_;  // guards everything below but the thread
  std::condition_variable wake_;
  std::map<Rank, PendingRequest> waiting_;
  std::vector<Dropped> dropped_;  // left the queue; the thread tells their sinks
  // Of the batch's members: setting one stops a step between two layers, if nobody else is in it.
  std::map<RequestId, std::shared_ptr<base::Stop>> stops_;
  bool stopping_ = false;
  RequestId last_id_ = 0;
  EngineCounters counters_;  // `waiting` is filled in when asked for

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace thimble::engine
