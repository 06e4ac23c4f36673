// Weights asked for ahead of their use, counted. Safe from any thread.
#pragma once

#include <mutex>

#include "kernels/ops.h"
#include "model/internal/weights.h"
#include "model/read_ahead.h"

namespace thimble::model {

class ReadAhead {
 public:
  // What of the expert is read where it is mapped; packed weights lie in memory of their own.
  void ask(const ExpertWeights& expert);
  // A row of codes and its scales.
  void ask(const kernels::EngramTable& table, uint64_t row);

  ReadAheadCounts counts() const;

 private:
  mutable std::mutex mutex_;
  ReadAheadCounts counts_;
};

}  // namespace thimble::model
