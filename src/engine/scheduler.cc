#include "engine/internal/scheduler.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace thimble::engine {
namespace {

constexpr auto kIdleInterval = std::chrono::seconds(30);  // between upkeeps while nothing runs

// Tells the sink of a request that never ran.
void end_unstarted(const PendingRequest& pending) {
  GenerationEnd end;
  end.reason = FinishReason::kCancelled;
  end.prompt_tokens = pending.request.prompt.size();
  end.queue_us = base::monotonic_us() - pending.submitted_us;
  notify_end(pending.id, *pending.sink, end);
}

}  // namespace

Scheduler::Scheduler(StepRunner& runner, const SchedulerOptions& options)
    : runner_(runner),
      options_(options),
      limits_{.vocab_size = runner.vocab_size(), .context_tokens = options.context_tokens} {
  CHECK(options.prefill_chunk > 0);
  thread_ = std::thread([this] {
    try {
      loop();
    } catch (const std::exception& thrown) {
      base::log_error("engine thread failed", {{"error", thrown.what()}});
      std::terminate();
    }
  });
}

Scheduler::~Scheduler() {
  CHECK(std::this_thread::get_id() != thread_.get_id());
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<RequestId> Scheduler::submit(GenerationRequest request,
                                    std::shared_ptr<GenerationSink> sink) {
  CHECK(sink != nullptr);
  THIMBLE_TRY(admit(request, limits_));
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return base::fail(ErrorCode::kUnavailable, "the engine is shutting down");
    if (waiting_.size() >= options_.queue_requests_max) {
      return base::fail(ErrorCode::kResourceExhausted,
                        "{} requests are waiting, as many as the queue holds", waiting_.size());
    }
    id = ++last_id_;
    waiting_.push_back({id, std::move(request), std::move(sink), base::monotonic_us()});
  }
  wake_.notify_all();
  return id;
}

void Scheduler::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    if (running_ == id) running_cancelled_ = true;
    const auto found =
        std::find_if(waiting_.begin(), waiting_.end(),
                     [id](const PendingRequest& pending) { return pending.id == id; });
    if (found == waiting_.end()) return;
    dropped_.push_back(std::move(*found));
    waiting_.erase(found);
  }
  wake_.notify_all();
}

EngineCounters Scheduler::counters() const {
  const std::lock_guard lock(mutex_);
  EngineCounters now = counters_;
  now.waiting = waiting_.size();
  now.running = running_ ? 1 : 0;
  return now;
}

void Scheduler::loop() {
  while (auto pending = next_request()) {
    run_to_end(std::move(*pending));
    if (counters().waiting == 0) runner_.idle();
  }
  const std::lock_guard lock(mutex_);
  CHECK(waiting_.empty() && dropped_.empty());
}

// Waits for a request to run; empty when the engine stops, with every sink told.
std::optional<PendingRequest> Scheduler::next_request() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto anything = [this] { return stopping_ || !waiting_.empty() || !dropped_.empty(); };
      while (!wake_.wait_for(lock, kIdleInterval, anything)) {
        lock.unlock();
        runner_.idle();
        lock.lock();
      }
      if (stopping_) {
        for (PendingRequest& pending : waiting_) dropped_.push_back(std::move(pending));
        waiting_.clear();
        if (dropped_.empty()) return std::nullopt;
      } else if (dropped_.empty()) {
        PendingRequest next = std::move(waiting_.front());
        waiting_.pop_front();
        running_ = next.id;
        running_cancelled_ = false;
        return next;
      }
    }
    end_dropped();
  }
}

void Scheduler::run_to_end(PendingRequest pending) {
  Sequence sequence(std::move(pending));
  sequence.start(runner_);
  while (!sequence.over()) {
    end_dropped();
    if (running_was_cancelled()) {
      sequence.end(FinishReason::kCancelled);
      break;
    }
    const uint64_t prompt_before = sequence.prompt_tokens_done();
    const uint64_t generated_before = sequence.generated_tokens();
    sequence.accept(run_step(sequence.next_step(options_.prefill_chunk)));
    count(sequence, prompt_before, generated_before);
  }
  sequence.finish(runner_);
  count_end(sequence.ending());
  sequence.notify();
}

// Before the sink hears of it: who was told of an end finds it counted.
void Scheduler::count_end(const GenerationEnd& end) {
  const CacheUse use = runner_.cache_use();
  const std::lock_guard lock(mutex_);
  running_.reset();
  ++counters_.finished;
  if (end.cached_tokens > 0) ++counters_.cache_hits;
  counters_.cached_tokens += end.cached_tokens;
  counters_.replayed_tokens += end.replayed_tokens;
  counters_.cache = use;
}

// No exception comes out of a module but for want of memory, and that ends one request only.
Result<void> Scheduler::run_step(const Step& step) {
  try {
    return runner_.run({&step, 1});
  } catch (const std::bad_alloc&) {
    return base::fail(ErrorCode::kResourceExhausted, "no memory for a step of {} tokens",
                      step.ids.size());
  }
}

bool Scheduler::running_was_cancelled() {
  const std::lock_guard lock(mutex_);
  return stopping_ || running_cancelled_;
}

void Scheduler::end_dropped() {
  std::vector<PendingRequest> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(dropped_);
    counters_.finished += dropped.size();
  }
  for (const PendingRequest& pending : dropped) end_unstarted(pending);
}

void Scheduler::count(const Sequence& sequence, uint64_t prompt_before, uint64_t generated_before) {
  const std::lock_guard lock(mutex_);
  ++counters_.steps;
  counters_.prompt_tokens += sequence.prompt_tokens_done() - prompt_before;
  counters_.generated_tokens += sequence.generated_tokens() - generated_before;
}

}  // namespace thimble::engine
