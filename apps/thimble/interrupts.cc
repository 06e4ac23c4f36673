#include "apps/thimble/interrupts.h"

#include <unistd.h>

#include "base/check.h"

namespace thimble::app {
namespace {

volatile std::sig_atomic_t signal_seen = 0;
bool in_use = false;

void on_signal(int signal) {
  if (signal_seen != 0) ::_exit(128 + signal);
  signal_seen = signal;
}

}  // namespace

Interrupts::Interrupts() {
  CHECK(!in_use);
  in_use = true;
  signal_seen = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  in_use = false;
}

int Interrupts::pending() const { return signal_seen; }

}  // namespace thimble::app
