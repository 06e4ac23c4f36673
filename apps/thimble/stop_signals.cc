#include "apps/thimble/stop_signals.h"

#include <csignal>
#include <cstdlib>

namespace thimble::app {
namespace {

constexpr long kPollNanoseconds = 200'000'000;

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

StopSignals::~StopSignals() = default;

void StopSignals::wait() {
  std::unique_lock lock(mutex_);
  waiting_ = true;
  changed_.wait(lock, [&] { return stopped_; });
}

void StopSignals::watch(const std::stop_token& stop) {
  const sigset_t set = stop_set();
  while (!stop.stop_requested()) {
    const timespec poll{0, kPollNanoseconds};
    const int signal = ::sigtimedwait(&set, nullptr, &poll);
    if (signal < 0) continue;
    const std::lock_guard lock(mutex_);
    if (!waiting_ || stopped_) std::_Exit(128 + signal);  // nothing to put in order, or no patience
    stopped_ = true;
    changed_.notify_all();
  }
}

}  // namespace thimble::app
