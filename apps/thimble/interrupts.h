// Ctrl-C and SIGTERM noticed, so that what is being done ends in good order.
//
// One object at a time, on any thread. A second signal ends the process at once: the step that is
// being computed may be a long one.
#pragma once

#include <csignal>

namespace thimble::app {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();  // puts back what handled the signals before
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The signal that came; 0: none.
  int pending() const;

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace thimble::app
