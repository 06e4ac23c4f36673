// Weights asked for ahead of their use, counted. Safe from any thread.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "kernels/ops.h"
#include "model/internal/weights.h"
#include "model/read_ahead.h"

namespace thimble::model {

class ReadAhead {
 public:
  // Asks for mapped bytes; tests put their own in its place.
  using Asker = std::function<base::PageCount(Bytes)>;
  explicit ReadAhead(bool residency_known, Asker asker = base::read_ahead)
      : asker_(std::move(asker)), counts_{{}, {}, residency_known} {}

  // What of the expert is read where it is mapped; packed weights lie in memory of their own.
  void ask(const ExpertWeights& expert);
  // A row of codes and its scales.
  void ask(const kernels::EngramTable& table, uint64_t row);

  ReadAheadCounts counts() const;

 private:
  const Asker asker_;
  mutable std::mutex mutex_;
  ReadAheadCounts counts_;
};

}  // namespace thimble::model
