// Weights laid out for speed (kernels/packed.h), in memory of their own: for the fast mode.
//
// Which matrices are fast does not depend on memory, only whether they were packed beforehand:
// results are the same. Immutable after create(). Source: design section 6.
#pragma once

#include <cstdint>

#include "base/huge_memory.h"
#include "base/thread_pool.h"
#include "model/forward.h"
#include "model/internal/weights.h"

namespace thimble::model {

class PackedWeights {
 public:
  // Makes the matrices of `weights` fast and packs those that `packing` names; the pages of what
  // was packed are given back to the file. kResourceExhausted names the bytes when memory is out.
  static Result<PackedWeights> create(ModelWeights& weights, Packing packing,
                                      base::ThreadPool& pool);

  uint64_t bytes() const { return bytes_; }

 private:
  base::HugeMemory memory_;
  uint64_t bytes_ = 0;
};

}  // namespace thimble::model
