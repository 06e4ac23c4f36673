#include "model/internal/read_ahead.h"

namespace thimble::model {

void ReadAhead::ask(const ExpertWeights& expert) {
  base::PageCount count;
  for (const WeightView* view : {&expert.w1, &expert.w3, &expert.w2}) {
    if (view->packed != nullptr) continue;
    count += asker_({view->codes, view->code_bytes()});
    count += asker_({view->scales, view->scale_bytes()});
  }
  const std::lock_guard lock(mutex_);
  counts_.experts += count;
}

void ReadAhead::ask(const kernels::EngramTable& table, uint64_t row) {
  const uint64_t scales = table.head_dim / 32;
  base::PageCount count = asker_({table.codes + row * table.head_dim, table.head_dim});
  count += asker_({table.scales + row * scales, scales});
  const std::lock_guard lock(mutex_);
  counts_.engram += count;
}

ReadAheadCounts ReadAhead::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace thimble::model
