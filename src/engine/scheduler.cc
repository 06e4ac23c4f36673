#include "engine/internal/scheduler.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace thimble::engine {
namespace {

constexpr auto kIdleInterval = std::chrono::seconds(30);  // between upkeeps while nothing runs

// Tells the sink of a request that never ran.
void end_unstarted(const PendingRequest& pending, bool expired) {
  GenerationEnd end;
  end.reason = expired ? FinishReason::kError : FinishReason::kCancelled;
  if (expired) end.error = deadline_passed();
  end.prompt_tokens = pending.request.prompt.size();
  end.queue_us = base::monotonic_us() - pending.submitted_us;
  notify_end(pending.id, *pending.sink, end);
}

}  // namespace

Scheduler::Scheduler(StepRunner& runner, const SchedulerOptions& options)
    : runner_(runner),
      options_(options),
      limits_{.vocab_size = runner.vocab_size(), .context_tokens = options.context_tokens},
      batch_(runner,
             {.sequences_max = options.sequences_max, .prefill_chunk = options.prefill_chunk}) {
  CHECK(options.prefill_chunk > 0 && options.sequences_max > 0);
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
    for (const auto& [id, stop] : stops_) stop->request();
  }
  wake_.notify_all();
  thread_.join();
}

Result<RequestId> Scheduler::submit(GenerationRequest request,
                                    std::shared_ptr<GenerationSink> sink) {
  std::vector<Submission> one;
  one.push_back({std::move(request), std::move(sink)});
  return THIMBLE_TRY(submit(std::move(one))).front();
}

// The places of the queue, and those of the batch that are free. REQUIRES: the lock is held.
Result<void> Scheduler::check_room(uint64_t count) const {
  const uint64_t all = uint64_t{options_.queue_requests_max} + options_.sequences_max;
  if (count > all) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "{} answers at once are more than the {} that can wait and the {} that can "
                      "run",
                      count, options_.queue_requests_max, options_.sequences_max);
  }
  if (waiting_.size() + stops_.size() + count <= all) return {};
  return base::fail(ErrorCode::kResourceExhausted,
                    "{} requests are waiting, and the queue holds {}", waiting_.size(),
                    options_.queue_requests_max);
}

Result<std::vector<RequestId>> Scheduler::submit(std::vector<Submission> submissions) {
  CHECK(!submissions.empty());
  for (Submission& one : submissions) {
    CHECK(one.sink != nullptr);
    THIMBLE_TRY(admit(one.request, limits_));
  }
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return base::fail(ErrorCode::kUnavailable, "the engine is shutting down");
    THIMBLE_TRY(check_room(submissions.size()));
    for (Submission& one : submissions) {
      const RequestId id = ++last_id_;
      ids.push_back(id);
      const Rank rank{one.request.priority, id};
      auto stop = std::make_shared<base::Stop>(one.request.deadline_us);
      waiting_.emplace(rank, PendingRequest{id, std::move(one.request), std::move(one.sink),
                                            base::monotonic_us(), std::move(stop)});
    }
  }
  wake_.notify_all();
  return ids;
}

void Scheduler::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(
        waiting_, [id](const auto& waiting) { return waiting.first.id == id; });
    if (found != waiting_.end()) {
      dropped_.push_back({std::move(found->second), false});
      waiting_.erase(found);
    } else if (const auto member = stops_.find(id); member != stops_.end()) {
      member->second->request();
    }
  }
  wake_.notify_all();
}

EngineCounters Scheduler::counters() const {
  const std::lock_guard lock(mutex_);
  EngineCounters now = counters_;
  now.waiting = waiting_.size() + stops_.size() - counters_.running;
  return now;
}

void Scheduler::loop() {
  while (next_round()) {
    batch_.begin_members();
    publish_counts();
    batch_.step();
    end_members();
  }
  const std::lock_guard lock(mutex_);
  CHECK(waiting_.empty() && dropped_.empty() && batch_.empty());
}

// Until there is something to run; false when the engine stops, with every sink told.
bool Scheduler::next_round() {
  while (true) {
    wait_for_work();
    fill_batch();
    end_dropped();
    end_members();
    const std::lock_guard lock(mutex_);
    if (!batch_.empty()) return true;
    if (stopping_ && waiting_.empty() && dropped_.empty()) return false;
  }
}

void Scheduler::wait_for_work() {
  std::unique_lock lock(mutex_);
  const auto anything = [this] {
    return stopping_ || !waiting_.empty() || !dropped_.empty() || !batch_.empty();
  };
  if (anything()) return;
  do {
    lock.unlock();
    runner_.idle();
    publish_counts();  // time alone may have freed memory
    lock.lock();
  } while (!wake_.wait_for(lock, kIdleInterval, anything));
}

// The queue is left by who was cancelled or is too late. REQUIRES: the lock is held.
void Scheduler::drop_waiting() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const bool expired = at->second.stop->overdue();
    if (stopping_ || expired) dropped_.push_back({std::move(at->second), expired && !stopping_});
    at = stopping_ || expired ? waiting_.erase(at) : std::next(at);
  }
}

void Scheduler::fill_batch() {
  const std::lock_guard lock(mutex_);
  drop_waiting();
  batch_.end_stopped();
  while (!batch_.full() && !waiting_.empty()) {
    PendingRequest& next = waiting_.begin()->second;
    stops_.emplace(next.id, next.stop);
    batch_.add(std::move(next));
    waiting_.erase(waiting_.begin());
  }
}

// Tells the sinks of those that are over. Before one hears of it, its end is counted and its memory
// free.
void Scheduler::end_members() {
  auto ended = batch_.take_ended();
  publish_counts();
  if (ended.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& sequence : ended) {
      const GenerationEnd& end = sequence->ending();
      ++counters_.finished;
      stops_.erase(sequence->id());
      if (end.cached_tokens > 0) ++counters_.cache_hits;
      counters_.cached_tokens += end.cached_tokens;
      counters_.replayed_tokens += end.replayed_tokens;
    }
  }
  for (auto& sequence : ended) {
    sequence->notify();
    sequence.reset();
  }
}

void Scheduler::publish_counts() {
  const Batch::Totals& totals = batch_.totals();
  const CacheUse use = runner_.cache_use();
  const std::lock_guard lock(mutex_);
  counters_.running = batch_.running();
  counters_.steps = totals.steps;
  counters_.prompt_tokens = totals.prompt_rows;
  counters_.generated_tokens = totals.generated;
  counters_.step_rows_decode = totals.decode_rows;
  counters_.pauses = totals.pauses;
  counters_.cache = use;
}

void Scheduler::end_dropped() {
  std::vector<Dropped> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(dropped_);
    counters_.finished += dropped.size();
  }
  for (const Dropped& of : dropped) end_unstarted(of.request, of.expired);
}

}  // namespace thimble::engine
