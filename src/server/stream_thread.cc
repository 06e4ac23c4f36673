#include "server/stream_thread.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace thimble::server {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

}  // namespace

StreamThread::StreamThread() : wakes_us_(kNever), thread_([this] { work(); }) {}

StreamThread::~StreamThread() { close(); }

void StreamThread::post(std::function<void()> task, int64_t written_us) {
  const int64_t due_us = std::max(written_us + kStreamUs, base::monotonic_us() + kStepUs);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    waiting_.push_back({due_us, std::move(task)});
    if (due_us >= wakes_us_) return;
    wakes_us_ = due_us;
  }
  wake_.notify_one();
}

void StreamThread::hurry() {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return;
    for (Waiting& one : waiting_) one.due_us = 0;
    wakes_us_ = 0;
  }
  wake_.notify_one();
}

void StreamThread::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// Also those that are due soon: streams of one engine stay in step. REQUIRES: the lock is held.
std::vector<StreamThread::Waiting> StreamThread::take_due(int64_t now_us) {
  const auto later = std::stable_partition(
      waiting_.begin(), waiting_.end(),
      [&](const Waiting& one) { return closed_ || one.due_us <= now_us + kStreamUs / 4; });
  std::vector<Waiting> due(std::make_move_iterator(waiting_.begin()),
                           std::make_move_iterator(later));
  waiting_.erase(waiting_.begin(), later);
  wakes_us_ = kNever;
  for (const Waiting& one : waiting_) wakes_us_ = std::min(wakes_us_, one.due_us);
  return due;
}

void StreamThread::work() {
  std::unique_lock lock(mutex_);
  while (!closed_ || !waiting_.empty()) {
    const int64_t now_us = base::monotonic_us();
    if (!closed_ && wakes_us_ > now_us) {
      if (wakes_us_ == kNever) {
        wake_.wait(lock);
      } else {
        wake_.wait_for(lock, std::chrono::microseconds(wakes_us_ - now_us));
      }
      continue;
    }
    auto due = take_due(now_us);
    lock.unlock();
    try {
      for (const Waiting& one : due) one.task();
    } catch (const std::exception& thrown) {
      base::check_failed(__FILE__, __LINE__, "no exception leaves a stream's task", thrown.what());
    }
    due.clear();
    lock.lock();
  }
}

}  // namespace thimble::server
